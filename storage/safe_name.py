"""Which names from outside may become files: names are hostile until checked here.

A key such as `../x` must not leave the destination, `.trainyard-manifest.json` must not make a folder look complete,
and two keys must not end in one file. Everything is refused with the key's name, before a byte of it is written.
"""

import os
from typing import Final

from trainyard.contract.errors import BadDataError

RESERVED_PREFIX: Final = ".trainyard-"
"""Names of our own bookkeeping, at any depth: a manifest in a sub-folder would make that look complete."""
MAX_PART_BYTES: Final = 255
"""NAME_MAX of every common file system."""
MAX_PATH_BYTES: Final = 3072
"""PATH_MAX (4096) less room for the destination's own path."""


class HostileNameError(BadDataError):
    """A name that must not, or cannot, become a file of the destination."""


def check_name(path: str) -> None:
    """Raise HostileNameError unless `path` is a plain relative path with `/`."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise _refusal(path, "it is no text that a file system could hold") from None
    if not path:
        raise _refusal(path, "it is empty")
    if "\0" in path:
        raise _refusal(path, "it has a NUL character")
    if path.startswith("/"):
        raise _refusal(path, "it is absolute")
    if len(encoded) > MAX_PATH_BYTES:
        raise _refusal(path, f"it has {len(encoded)} bytes, more than {MAX_PATH_BYTES}")
    for part in path.split("/"):
        if part == "..":
            raise _refusal(path, "it leaves the destination")
        if part in ("", "."):
            raise _refusal(path, "it has an empty part")
        if part.casefold().startswith(RESERVED_PREFIX):
            raise _refusal(path, f"names that begin with {RESERVED_PREFIX!r} are reserved")
        if len(os.fsencode(part)) > MAX_PART_BYTES:
            raise _refusal(path, f"a part of it has more than {MAX_PART_BYTES} bytes")


class Names:
    """The names of one staging; `add` refuses one that cannot stand beside those before it.

    Holds every name: about 200 bytes each.
    """

    def __init__(self, *, case_insensitive: bool) -> None:
        self._case_insensitive = case_insensitive
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {"": ""}

    def add(self, path: str) -> None:
        """Check and remember a name; raises HostileNameError."""
        check_name(path)
        key = self._key(path)
        if key in self._files:
            other = self._files[key]
            raise _refusal(path, "it is listed twice" if other == path else f"{other!r} is the same file here")
        if key in self._folders:
            raise _refusal(path, f"it is also a folder, of {self._folders[key]!r}")
        folder = key
        while (folder := folder.rpartition("/")[0]) not in self._folders:
            if folder in self._files:
                raise _refusal(path, f"{self._files[folder]!r} is a file, not a folder")
            self._folders[folder] = path
        self._files[key] = path

    def __contains__(self, path: str) -> bool:
        return self._files.get(self._key(path)) == path

    def __len__(self) -> int:
        return len(self._files)

    def _key(self, path: str) -> str:
        if not self._case_insensitive:
            return path
        import unicodedata

        # File systems that ignore case (APFS, NTFS) ignore the form of composed characters too.
        return unicodedata.normalize("NFC", path.casefold())


def _refusal(path: str, why: str) -> HostileNameError:
    shown = path if len(path) <= 200 else f"{path[:200]}..."
    return HostileNameError(f"refuse the name {shown!r}: {why}")
