"""A storage URI, parsed once: `scheme://rest`.

Every place that takes a URI (`STORAGE_URI`, `trainyard fetch`) parses it here; what `rest` means is each source's own
affair. A bare absolute path stands for `file://` and that path. `str()` is safe to print and to keep: user information
and queries, where credentials hide, are masked in it.
"""

import re
from dataclasses import dataclass
from typing import Final

from trainyard.contract import env
from trainyard.contract.errors import ConfigError

MAX_CHARS: Final = 2048
"""The TrainJob's own limit on storageUri."""

_GRAMMAR: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NO_CREDENTIALS: Final = frozenset({"file", "pvc", "hf"})
"""Schemes without user information and query: `@` is a revision or part of a name in them, `?` part of a name."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class StorageUri:
    """Where a dataset or a model lies."""

    scheme: str
    """In lower case, without `://`."""
    rest: str
    """Everything after `://`, as written (percent-encoding included). May hold credentials: never print it."""

    @classmethod
    def parse(cls, text: str, *, field: str = env.STORAGE_URI) -> "StorageUri":
        """Parse `scheme://rest` or an absolute path; `field` names the place in the error.

        Raises ConfigError for anything else.
        """
        text = text.strip(" ")
        if not text:
            raise ConfigError(f"{field}: expected scheme://something, got nothing")
        if _CONTROL.search(text):
            shown = _mask_anything(text)
            raise ConfigError(f"{field}: expected scheme://something, got control characters in {shown!r}")
        if len(text) > MAX_CHARS:
            raise ConfigError(f"{field}: expected at most {MAX_CHARS} characters, got {len(text)}")
        if text.startswith("/"):
            return cls(scheme="file", rest=text.replace("%", "%25"))
        match = _GRAMMAR.fullmatch(text)
        if match is None:
            raise ConfigError(f"{field}: expected scheme://something or an absolute path, got {_mask_anything(text)!r}")
        scheme, rest = match[1].lower(), match[2]
        if not rest.strip("/"):
            raise ConfigError(f"{field}: expected something after {scheme}://, got {text!r}")
        return cls(scheme=scheme, rest=rest)

    def __str__(self) -> str:
        rest = self.rest if self.scheme in _NO_CREDENTIALS else _mask(self.rest)
        return f"{self.scheme}://{rest}"

    def __repr__(self) -> str:
        return f"StorageUri({str(self)!r})"


def _mask(rest: str) -> str:
    """Hide user information and query of `authority/path?query`."""
    place, question, _ = rest.partition("?")
    authority = place.partition("/")[0]
    port = authority.partition(":")[2]
    # A password may itself hold a slash: what follows the colon is a port only if it is a number.
    whole = "@" not in authority and port and not port.isdecimal()
    before, at, _ = (place if whole else authority).rpartition("@")
    if at:
        place = f"***@{place[len(before) + 1 :]}"
    return f"{place}?***" if question else place


def _mask_anything(text: str) -> str:
    """Hide whatever may be a credential in a text that is no URI."""
    place, question, _ = text.partition("?")
    place = f"***@{place.rpartition('@')[2]}" if "@" in place else place
    return f"{place}?***" if question else place
