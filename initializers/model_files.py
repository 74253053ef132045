"""Which files of a model repository are wanted when nobody says.

A repository often holds the same weights in several formats. One format is taken, the first of this order that it has:

    safetensors (*.safetensors), bin (*.bin), pt (*.pt, *.pth), gguf (*.gguf)

The formats in the repository's root decide when there are any, else those anywhere: Llama repositories keep the
original checkpoint in a sub-folder. The weights of the later formats, and those of TensorFlow and Flax (*.h5,
*.msgpack), are left out; all else comes: configs, tokenizers, templates, remote code (fetched, never executed).

Kubeflow's SDK sends its own default list with every job, so a list equal to `SDK_DEFAULT_IGNORE` counts as unset.
Patterns that a user does set replace these rules. A model without any weights is an error in every case.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainyard.contract.errors import SourceNotFoundError
from trainyard.storage.patterns import Patterns, Sample, Selection, nothing_chosen
from trainyard.storage.source import SourceFile

SDK_DEFAULT_IGNORE: Final = frozenset({"*.msgpack", "*.h5", "*.bin", "*.pt", "*.pth"})

FORMATS: Final[tuple[tuple[str, ...], ...]] = ((".safetensors",), (".bin",), (".pt", ".pth"), (".gguf",))
"""Suffixes of each format, the preferred one first."""
FOREIGN: Final = (".h5", ".msgpack")
"""Weights that no trainer of ours reads."""
_WEIGHTS: Final = tuple(suffix for suffixes in FORMATS for suffix in suffixes)
_NOT_WEIGHTS: Final = frozenset({"training_args.bin", "optimizer.bin", "scheduler.bin", "optimizer.pt", "scheduler.pt"})
"""What the Hugging Face Trainer leaves beside the weights."""


def model_selection(allow: Sequence[str], ignore: Sequence[str]) -> Selection:
    """Choose between the user's patterns and the defaults."""
    if allow or (ignore and frozenset(ignore) != SDK_DEFAULT_IGNORE):
        explicit = () if frozenset(ignore) == SDK_DEFAULT_IGNORE else tuple(ignore)
        return WithWeights(inner=Patterns(allow=tuple(allow), ignore=explicit))
    return WithWeights(inner=OneFormat())


def is_weights(path: str) -> bool:
    """Say whether a path names weights that a trainer can read."""
    return path.endswith(_WEIGHTS) and path.rpartition("/")[2] not in _NOT_WEIGHTS


@dataclass(frozen=True, kw_only=True, slots=True)
class OneFormat:
    """The defaults: one format of the weights, and everything that is no weights."""

    def describe(self) -> dict[str, Any]:
        """Name the rule."""
        return {"rule": "model-defaults"}

    def choose(self, files: Iterable[SourceFile], source: str) -> Iterator[SourceFile]:
        """Choose once all are listed: a model has thousands of files at most."""
        listed = list(files)
        if not listed:
            raise nothing_chosen(source, Sample())
        weights = [file.path for file in listed if is_weights(file.path)]
        in_root = [path for path in weights if "/" not in path]
        taken = _first_format(in_root or weights)
        left_out = (*FOREIGN, *(suffix for suffixes in FORMATS[taken + 1 :] for suffix in suffixes))
        yield from (file for file in listed if not file.path.endswith(left_out))


@dataclass(frozen=True, kw_only=True, slots=True)
class WithWeights:
    """Another selection, and the certainty that there are weights in it."""

    inner: Selection

    def describe(self) -> dict[str, Any]:
        """Describe the inner selection."""
        return self.inner.describe()

    def choose(self, files: Iterable[SourceFile], source: str) -> Iterator[SourceFile]:
        """Pass the inner choice on; raises SourceNotFoundError when no weights were among it."""
        there = Sample()

        def noticed() -> Iterator[SourceFile]:
            for file in files:
                there.add(file.path)
                yield file

        chosen = list(self.inner.choose(noticed(), source))
        if not any(is_weights(file.path) for file in chosen):
            expected = ", ".join(f"*{suffix}" for suffix in _WEIGHTS)
            raise SourceNotFoundError(
                f"{source}: a model without weights, expected {expected} among what the patterns leave; it has {there}"
            )
        yield from chosen


def _first_format(paths: Sequence[str]) -> int:
    """Give the index of the preferred format that is there; the first when there is none."""
    for index, suffixes in enumerate(FORMATS):
        if any(path.endswith(suffixes) for path in paths):
            return index
    return 0
