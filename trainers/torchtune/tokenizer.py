"""The model's own tokenizer: tokenizer.json through the tokenizers library, special tokens from the files beside it.

The ids of a text are those that transformers gives, the beginning-of-sequence token included where the model has one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer as FastTokenizer

from trainyard.contract.errors import BadDataError, SourceNotFoundError

TOKENIZER: Final = "tokenizer.json"
_SETTINGS: Final = "tokenizer_config.json"


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Turns texts into ids."""

    fast: Any
    """The `tokenizers.Tokenizer`, with truncation and padding off."""
    file: Path
    """The tokenizer.json that it came from."""
    eos_id: int
    """Ends a response, and fills the padding."""

    @property
    def vocab_size(self) -> int:
        """Count the ids, added tokens included."""
        return int(self.fast.get_vocab_size(with_added_tokens=True))

    def encode_prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode beginnings: as transformers encodes a whole text, but with no end-of-sequence token."""
        encoded = [encoding.ids for encoding in self.fast.encode_batch_fast(list(texts), add_special_tokens=True)]
        return [ids[:-1] if ids and ids[-1] == self.eos_id else ids for ids in encoded]

    def encode_responses(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode continuations, each closed with the end-of-sequence token."""
        encoded = self.fast.encode_batch_fast(list(texts), add_special_tokens=False)
        return [[*encoding.ids, self.eos_id] for encoding in encoded]

    def decode(self, ids: Sequence[int]) -> str:
        """Turn ids into text, without special tokens."""
        return str(self.fast.decode(list(ids), skip_special_tokens=True))


def load(model_directory: Path, path: Path | None) -> Tokenizer:
    """Load the tokenizer of a model directory, or the tokenizer.json that `path` names.

    `path` may also be another of the model's tokenizer files (torchtune's configs name tokenizer.model or vocab.json):
    then the tokenizer.json of that folder, or of the model directory, is meant.
    Raises SourceNotFoundError when there is none, BadDataError when it cannot be used or no token ends a text.
    """
    candidates = [model_directory / TOKENIZER]
    if path is not None:
        candidates = [path, *candidates] if path.suffix == ".json" and path.name != "vocab.json" else candidates
        candidates.insert(-1, path.parent / TOKENIZER)
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is None or (path is not None and not path.exists()):
        raise SourceNotFoundError(
            f"tokenizer.path: {str(path or candidates[-1])!r}: no such file; expected the model's {TOKENIZER}"
        )
    try:
        fast = FastTokenizer.from_file(str(file))
    except Exception as error:  # The library raises bare Exception for everything.
        raise BadDataError(f"{file}: not a tokenizer of the tokenizers library: {error}") from error
    fast.no_truncation()
    fast.no_padding()
    return Tokenizer(fast=fast, file=file, eos_id=_eos_id(fast, file.parent, model_directory))


def _eos_id(fast: Any, *folders: Path) -> int:
    for folder in folders:
        token = _json(folder / _SETTINGS).get("eos_token")
        text = token.get("content") if isinstance(token, dict) else token
        found = fast.token_to_id(text) if isinstance(text, str) else None
        if found is not None:
            return int(found)
    for folder in folders:
        for name in ("generation_config.json", "config.json"):
            found = _json(folder / name).get("eos_token_id")
            found = found[0] if isinstance(found, list) and found else found
            if isinstance(found, int):
                return found
    raise BadDataError(
        f"{folders[0] / _SETTINGS}: names no eos_token that the tokenizer has, nor does config.json name an "
        "eos_token_id; a response could not be ended"
    )


def _json(file: Path) -> dict[str, Any]:
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise BadDataError(f"{file}: not valid JSON: {error}") from error
    return raw if isinstance(raw, dict) else {}
