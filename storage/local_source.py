"""`file://`: a file or a folder of this machine, or of a volume that is mounted here.

- `file:///data/x`, `file://localhost/data/x` and the bare path `/data/x` are the same; percent-encoding is decoded.
- Symbolic links are followed, also out of the folder: it is the user's own, and a Hugging Face cache is nothing but
  links to blobs elsewhere. A link that leads to a folder above itself is an error.
- Sockets, pipes and devices are refused, dangling links too, unless the patterns leave them out.
- Left out always: the bookkeeping of tools, which is not data: `.git`, `.cache/huggingface`, and our own
  `.trainyard-*` (so that a staged folder can itself be a source).
- A file's version is its size and modification time; a change while it is read is noticed.
"""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from trainyard.contract import env
from trainyard.contract.errors import (
    AccessDeniedError,
    BadDataError,
    ConfigError,
    SourceNotFoundError,
    TrainyardError,
    TransientError,
)
from trainyard.storage.safe_name import RESERVED_PREFIX
from trainyard.storage.source import SourceChangedError, SourceFile, SourceIdentity
from trainyard.storage.uri import StorageUri

_BOOKKEEPING: Final = (".git", ".cache/huggingface")
_KINDS: Final = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISCHR, "a character device"),
)


def from_uri(uri: StorageUri, environ: Mapping[str, str]) -> "LocalSource":
    """Make the source of a `file://` URI; raises ConfigError for a relative path or another host."""
    from urllib.parse import unquote

    host, slash, rest = uri.rest.partition("/")
    if host.startswith(".") or host == "~" or not slash:
        raise ConfigError(f"{env.STORAGE_URI}: expected an absolute path after file://, got {str(uri)!r}")
    if host not in ("", "localhost"):
        raise ConfigError(
            f"{env.STORAGE_URI}: file:// reads this machine, got host {host!r} in {str(uri)!r}; "
            f"expected file:///{host}/{rest} if that was meant as a path"
        )
    path = unquote(f"/{rest}", errors="surrogateescape")
    if "\0" in path:
        raise ConfigError(f"{env.STORAGE_URI}: expected a path, got a NUL character in {str(uri)!r}")
    return LocalSource(Path(path))


class LocalSource:
    """A file or folder as a `Source`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def resolve(self) -> SourceIdentity:
        """Say that the path is there and can be read."""
        from urllib.parse import quote

        uri = f"file://{quote(os.fsencode(self._path))}"
        try:
            mode = self._path.stat().st_mode
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                raise BadDataError(f"{uri}: expected a file or a folder, found {_kind(mode)}")
            if not os.access(self._path, os.R_OK | (os.X_OK if stat.S_ISDIR(mode) else 0)):
                raise AccessDeniedError(f"{uri}: user {os.geteuid()} may not read it")
        except OSError as error:
            raise self._translate(error, uri, missing=self._nearest()) from error
        return SourceIdentity(uri=uri, local_path=self._path)

    def files(self) -> Iterator[SourceFile]:
        """Walk the folder depth first, names in order; a single file is a source of one."""
        if self._path.is_dir():
            yield from self._walk(self._path, "", ())
        else:
            yield self._describe(self._path, self._path.name)

    def refresh(self, file: SourceFile) -> SourceFile:
        """Look at one file again."""
        return self._describe(self._locate(file), file.path)

    def open(self, file: SourceFile, start: int = 0, stop: int | None = None) -> "LocalReader":
        """Open a byte range; raises SourceChangedError when the file is not the listed one any more."""
        name = f"read {str(self._locate(file))!r}"
        try:
            # Not blocking, for what has become a pipe since it was listed.
            descriptor = os.open(self._locate(file), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise self._translate(error, name) from error
        reader = LocalReader(descriptor, file.version, name, start, stop)
        try:
            reader.confirm()
        except BaseException:
            reader.close()
            raise
        return reader

    def _locate(self, file: SourceFile) -> Path:
        return self._path / file.path if self._path.is_dir() else self._path

    def _walk(self, folder: Path, prefix: str, above: tuple[tuple[int, int], ...]) -> Iterator[SourceFile]:
        try:
            status = folder.stat()
            here = (status.st_dev, status.st_ino)
            if here in above:
                raise BadDataError(f"list {str(folder)!r}: the link leads to a folder above itself")
            with os.scandir(folder) as entries:
                names = sorted((entry.name, _is_folder(entry)) for entry in entries)
        except OSError as error:
            raise self._translate(error, f"list {str(folder)!r}") from error
        for name, is_folder in names:
            path = f"{prefix}{name}"
            if name.startswith(RESERVED_PREFIX) or path in _BOOKKEEPING or name == _BOOKKEEPING[0]:
                continue
            if is_folder:
                yield from self._walk(folder / name, f"{path}/", (*above, here))
            else:
                yield self._describe(folder / name, path)

    def _describe(self, file: Path, path: str) -> SourceFile:
        try:
            status = file.stat()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP) and file.is_symlink():
                target = str(file.readlink())
                return SourceFile(path=path, unreadable=f"it is a symbolic link to {target!r}, which is not there")
            raise self._translate(error, f"read {str(file)!r}") from error
        if not stat.S_ISREG(status.st_mode):
            return SourceFile(path=path, unreadable=f"it is {_kind(status.st_mode)}")
        return SourceFile(path=path, size_bytes=status.st_size, version=_version(status))

    def _nearest(self) -> str:
        """Say what there is where the path ends, to show which part of it is wrong."""
        for parent in self._path.parents:
            if parent.is_dir():
                try:
                    names = sorted(path.name for path in parent.iterdir())
                except OSError:
                    break
                shown = ", ".join(repr(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")
                return f"; {str(parent)!r} has {shown or 'nothing in it'}"
        return ""

    def _translate(self, error: OSError, doing: str, missing: str = "") -> TrainyardError:
        detail = error.strerror or str(error)
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return SourceNotFoundError(f"{doing}: no such file or folder{missing}")
        if error.errno in (errno.EACCES, errno.EPERM):
            return AccessDeniedError(f"{doing}: {detail} for user {os.geteuid()}")
        if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
            return SourceNotFoundError(f"{doing}: {detail}")
        return TransientError(f"{doing}: {detail}")


class LocalReader:
    """An open range of a local file."""

    __slots__ = ("_doing", "_remaining", "_version", "descriptor")

    def __init__(self, descriptor: int, version: str, doing: str, start: int, stop: int | None) -> None:
        self.descriptor: int | None = descriptor
        self._version = version
        self._doing = doing
        self._remaining = None if stop is None else stop - start
        if start:
            os.lseek(descriptor, start, os.SEEK_SET)

    def readinto(self, buffer: memoryview, /) -> int:
        """Read the next bytes of the range."""
        if self._remaining is not None:
            buffer = buffer[: self._remaining]
        try:
            count = os.readv(self._open_descriptor(), [buffer]) if buffer else 0
        except OSError as error:
            raise TransientError(f"{self._doing}: {error.strerror}") from error
        if self._remaining is not None:
            self._remaining -= count
        return count

    def confirm(self) -> None:
        """Compare size and modification time with the listed ones."""
        status = os.fstat(self._open_descriptor())
        if not stat.S_ISREG(status.st_mode) or _version(status) != self._version:
            raise SourceChangedError(f"{self._doing}: the file was changed while it was being staged")

    def close(self) -> None:
        """Close the file; again does nothing."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _open_descriptor(self) -> int:
        if self.descriptor is None:
            raise ValueError("the reader is closed")
        return self.descriptor


def _version(status: os.stat_result) -> str:
    return f"{status.st_size}-{status.st_mtime_ns}"


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # A link to itself.
        return False


def _kind(mode: int) -> str:
    return next((words for matches, words in _KINDS if matches(mode)), "neither a file nor a folder")
