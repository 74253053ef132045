"""The manifest: what makes a staged folder complete, and what it should hold.

    {
    "version": 1,
    "tool": "trainyard 0.1.0",
    "created": "2026-11-21T10:00:00Z",
    "source": {"uri": "file:///data/squad", "revision": null},
    "selection": {"allow": [], "ignore": ["*.md"]},
    "total": {"files": 2, "bytes": 4096},
    "files": [
    {"path": "a.parquet", "size": 4000, "sha256": "9f86...", "mtime_ns": 1700000000000000000, "version": "4000-17..."},
    {"path": "b.json", "size": 96, "sha256": "60303a...", "mtime_ns": 1700000000000000000, "version": "96-17..."}
    ]
    }

It is plain JSON for people and other programs, written with one file a line so that a million of them are written and
read as a stream. `mtime_ns` is the staged file's own time: size and time equal means, without reading, that nobody
touched it since. A folder is complete exactly when the manifest exists; it appears by a rename after everything else
is safely on disk.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trainyard.contract.errors import BadDataError, IntegrityError
from trainyard.contract.paths import MANIFEST
from trainyard.storage.safe_name import check_name
from trainyard.storage.source import SourceFile

VERSION: Final = 1
_FILES_LINE: Final = '"files": [\n'
_SORTED_UP_TO: Final = 100_000
"""Entries are put in order up to this many (some 40 MB of memory); beyond, they stay as they finished."""


class DamagedManifestError(IntegrityError):
    """A manifest or a journal that cannot be read, or that says what ours never say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One staged file."""

    path: str
    """Relative to the folder, checked by `safe_name`."""
    size_bytes: int
    sha256: str
    """Of the bytes as staged, lower-case hex."""
    mtime_ns: int
    """The staged file's modification time."""
    version: str = ""
    """The source's version of it (`SourceFile.version`)."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """What the source promised, when it promised something."""

    def to_line(self) -> str:
        """Write as one line of JSON; `path` comes first, so that sorted lines are sorted paths."""
        raw: dict[str, Any] = {
            "path": self.path,
            "size": self.size_bytes,
            "sha256": self.sha256,
            "mtime_ns": self.mtime_ns,
            "version": self.version,
        }
        if self.digests:
            raw["digests"] = dict(self.digests)
        return json.dumps(raw)  # ASCII only: names that are not UTF-8 survive as escapes.

    def is_of(self, file: SourceFile, *, same_source: bool) -> bool:
        """Say whether it was staged from just this version of `file`; without digests only the same source can tell."""
        if file.unreadable or (file.size_bytes is not None and file.size_bytes != self.size_bytes):
            return False
        known = {**self.digests, "sha256": self.sha256}
        shared = [name for name in file.digests if name in known]
        if shared:
            return all(file.digests[name] == known[name] for name in shared)
        return same_source and file.version != "" and file.version == self.version

    @classmethod
    def from_json(cls, raw: Any, where: str) -> "Entry":
        """Check a parsed entry; raises DamagedManifestError."""
        try:
            entry = cls(
                path=_of_type(raw["path"], str),
                size_bytes=_of_type(raw["size"], int),
                sha256=_of_type(raw["sha256"], str),
                mtime_ns=_of_type(raw["mtime_ns"], int),
                version=_of_type(raw.get("version", ""), str),
                digests=_of_type(raw.get("digests", {}), dict),
            )
            check_name(entry.path)
        except (KeyError, TypeError, AttributeError, BadDataError) as error:
            raise DamagedManifestError(f"read {where}: an entry is not as we write them ({error})") from error
        return entry


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """The manifest without its files."""

    source_uri: str
    """`SourceIdentity.uri`: canonical and without secrets."""
    revision: str | None
    """The immutable revision, where the source has one."""
    selection: Mapping[str, Any]
    """`Selection.describe()` of what was asked for."""
    file_count: int = 0
    byte_count: int = 0
    created: str = ""
    """UTC, RFC 3339."""
    tool: str = ""
    """`trainyard` and its version."""


class Manifest:
    """The manifest of one folder; `header` is read at once, `entries` as a stream."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / MANIFEST
        """Where it lies."""
        self._header: Header | None = None
        self._where = repr(str(self.path))

    def exists(self) -> bool:
        """Say whether the folder is complete."""
        return self.path.is_file()

    @property
    def header(self) -> Header:
        """Read the header; raises DamagedManifestError."""
        if self._header is None:
            with self._open() as file:
                head = ""
                for line in file:
                    if line == _FILES_LINE:
                        head += '"files": []}'
                        break
                    head += line
                self._header = self._parse_header(head)
        return self._header

    def entries(self) -> Iterator[Entry]:
        """Read the files one by one; raises DamagedManifestError, also when their number is wrong."""
        expected = self.header.file_count
        found = 0
        for raw in self._raw_entries():
            found += 1
            yield Entry.from_json(raw, self._where)
        if found != expected:
            raise DamagedManifestError(f"read {self._where}: expected {expected} files in it, found {found}")

    def _open(self) -> Any:
        return open(self.path, encoding="utf-8", errors="surrogateescape")

    def _raw_entries(self) -> Iterator[Any]:
        try:
            with self._open() as file:
                for line in file:
                    if line == _FILES_LINE:
                        break
                else:  # Somebody laid it out anew: the same JSON, other lines.
                    file.seek(0)
                    yield from _of_type(json.load(file)["files"], list)
                    return
                for line in file:
                    if line == "]\n":
                        return
                    yield json.loads(line.rstrip().removesuffix(","))
            raise DamagedManifestError(f"read {self._where}: it ends in the middle")
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedManifestError(f"read {self._where}: {error}") from error

    def _parse_header(self, text: str) -> Header:
        try:
            raw = json.loads(text)
            if raw["version"] != VERSION:
                raise DamagedManifestError(
                    f"read {self._where}: expected version {VERSION}, found {raw['version']!r} of another release"
                )
            revision = raw["source"]["revision"]
            return Header(
                source_uri=_of_type(raw["source"]["uri"], str),
                revision=None if revision is None else _of_type(revision, str),
                selection=_of_type(raw["selection"], dict),
                file_count=_of_type(raw["total"]["files"], int),
                byte_count=_of_type(raw["total"]["bytes"], int),
                created=_of_type(raw["created"], str),
                tool=_of_type(raw["tool"], str),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedManifestError(
                f"read {self._where}: {error!r} where a manifest of ours has its header"
            ) from error


def write(path: Path, header: Header, entries: Iterable[Entry]) -> None:
    """Write a manifest to `path` and flush it to disk; the caller renames it into place."""
    lines: Iterable[str] = (entry.to_line() for entry in entries)
    if header.file_count <= _SORTED_UP_TO:
        lines = sorted(lines)
    top = {
        "version": VERSION,
        "tool": header.tool,
        "created": header.created,
        "source": {"uri": header.source_uri, "revision": header.revision},
        "selection": dict(header.selection),
        "total": {"files": header.file_count, "bytes": header.byte_count},
    }
    with open(path, "w", encoding="ascii") as file:
        file.write("{\n")
        for key, value in top.items():
            file.write(f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)},\n")
        file.write(_FILES_LINE)
        separator = ""
        for line in lines:
            file.write(f"{separator}{line}")
            separator = ",\n"
        file.write("\n]\n}\n")
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())


def _of_type(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"expected {kind.__name__}, found {value!r}")
    return value
