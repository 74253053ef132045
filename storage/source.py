"""What a source of files is: the interface that each scheme implements in one file.

`stage` asks a source for its identity, walks its files, and reads byte ranges of them into buffers of its own. A source
never writes, never decides what is wanted, and never holds a whole file or a whole listing in memory. Methods other
than `files` may be called from several threads at once.

Paths that a source gives are untrusted; `safe_name` checks them. Errors are `contract.errors`: SourceNotFoundError,
AccessDeniedError, TransientError, and `SourceChangedError` from here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from trainyard.contract.errors import IntegrityError


class SourceChangedError(IntegrityError):
    """A file is no longer the version that was listed; `stage` asks for the new one once, then gives up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceIdentity:
    """What a source resolves to, before any byte is read."""

    uri: str
    """The source in its one canonical spelling, without secrets; what the manifest keeps and compares."""
    revision: str | None = None
    """An immutable revision (a commit, a digest): two equal ones have equal bytes, so nothing need be listed to know
    that nothing changed. None where the source has no such thing (a folder, a prefix); then each file's `version`
    tells."""
    local_path: Path | None = None
    """Where the source lies on this machine, if it does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """One file of a source, as listed."""

    path: str
    """Relative to the source, with `/`; untrusted."""
    size_bytes: int | None = None
    """None when the listing does not say."""
    version: str = ""
    """Opaque; changes when the bytes change (an ETag, a version id, size and time). Pins every range that is read."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """What the source promises about the bytes: algorithm (`sha256`, `git-sha1`, `md5`, `crc64nvme`, ...) to
    lower-case hex."""
    unreadable: str | None = None
    """Why this file cannot be staged (a socket, a dangling link, an archived object), as the end of a sentence; an
    error only when the file is wanted."""


class RangeReader(Protocol):
    """An open byte range of one file."""

    descriptor: int | None
    """A descriptor of the whole file on this machine, for a reflink; None for anything remote."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Read at most `len(buffer)` bytes, at least one unless the range has ended; return how many."""
        ...

    def confirm(self) -> None:
        """Raise SourceChangedError when the bytes read were not all of the version asked for."""
        ...

    def close(self) -> None:
        """Give back the descriptor or the connection."""
        ...


class Source(Protocol):
    """A place that files come from."""

    def resolve(self) -> SourceIdentity:
        """Say what the source is; raises SourceNotFoundError or AccessDeniedError when it is not there for us."""
        ...

    def files(self) -> Iterator[SourceFile]:
        """Walk all files, lazily and in a stable order: a million keys must not be held at once."""
        ...

    def refresh(self, file: SourceFile) -> SourceFile:
        """Look at one file again, after SourceChangedError."""
        ...

    def open(self, file: SourceFile, start: int = 0, stop: int | None = None) -> RangeReader:
        """Open the bytes from `start` up to `stop` (None: the end) of exactly `file.version`."""
        ...
