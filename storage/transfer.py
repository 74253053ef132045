"""Bring one file over: a reflink or a copy into the partial file, hashed as it passes, compared with what was promised.

Memory: one buffer a thread, whatever the file's size.
"""

import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from trainyard.contract.errors import IntegrityError
from trainyard.storage.file_system import reflink
from trainyard.storage.source import RangeReader, Source, SourceFile

BUFFER_BYTES: Final = 1024 * 1024
"""What one thread holds in memory."""
_CHECKED: Final = {"sha256": "sha256", "sha1": "sha1", "md5": "md5"}
"""Promised digests that can be checked, and hashlib's names for them."""

_buffers = threading.local()


class Stopped(Exception):  # noqa: N818 - nothing went wrong here
    """The work elsewhere failed or was ended; this file is left as it is."""


class Hash(Protocol):
    """What hashlib gives."""

    def update(self, data: memoryview, /) -> None:
        """Take more bytes."""
        ...

    def hexdigest(self) -> str:
        """Give the digest."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Transferred:
    """What came over."""

    size_bytes: int
    sha256: str
    is_reflink: bool


def transfer(
    source: Source,
    file: SourceFile,
    descriptor: int,
    *,
    moved: Callable[[int], None],
    stop: threading.Event,
) -> Transferred:
    """Bring the bytes of `file` to the empty file behind `descriptor`; `moved` hears of every piece.

    Raises SourceChangedError, and IntegrityError when size or digest differ from what the source promised. An OSError
    that comes out is the destination's.
    """
    hashes = {"sha256": hashlib.sha256()}
    for name in file.digests:
        if name in _CHECKED:
            hashes.setdefault(name, hashlib.new(_CHECKED[name], usedforsecurity=False))
    with closing(source.open(file)) as reader:
        is_reflink = reader.descriptor is not None and reflink(reader.descriptor, descriptor)
        if is_reflink:
            size = _hash(descriptor, tuple(hashes.values()), moved=moved, stop=stop)
        else:
            size = _copy(reader, descriptor, tuple(hashes.values()), moved=moved, stop=stop)
        reader.confirm()
    if file.size_bytes is not None and size != file.size_bytes:
        raise IntegrityError(f"read {file.path!r}: got {size} bytes, expected {file.size_bytes}")
    for name, expected in file.digests.items():
        if name in hashes and hashes[name].hexdigest() != expected:
            raise IntegrityError(f"read {file.path!r}: {name} is {hashes[name].hexdigest()}, expected {expected}")
    return Transferred(size_bytes=size, sha256=hashes["sha256"].hexdigest(), is_reflink=is_reflink)


def hash_file(path: Path, *, moved: Callable[[int], None], stop: threading.Event) -> tuple[int, str]:
    """Read a file of ours; give its size and sha256."""
    digest = hashlib.sha256()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return _hash(descriptor, (digest,), moved=moved, stop=stop), digest.hexdigest()
    finally:
        os.close(descriptor)


def _copy(
    reader: RangeReader,
    descriptor: int,
    hashes: tuple[Hash, ...],
    *,
    moved: Callable[[int], None],
    stop: threading.Event,
) -> int:
    buffer = _buffer()
    size = 0
    while count := reader.readinto(buffer):
        piece = buffer[:count]
        for digest in hashes:
            digest.update(piece)
        _write_all(descriptor, piece)
        size += count
        moved(count)
        if stop.is_set():
            raise Stopped
    return size


def _hash(descriptor: int, hashes: tuple[Hash, ...], *, moved: Callable[[int], None], stop: threading.Event) -> int:
    buffer = _buffer()
    size = 0
    os.lseek(descriptor, 0, os.SEEK_SET)
    while count := os.readv(descriptor, [buffer]):
        for digest in hashes:
            digest.update(buffer[:count])
        size += count
        moved(count)
        if stop.is_set():
            raise Stopped
    return size


def _write_all(descriptor: int, piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(descriptor, piece) :]


def _buffer() -> memoryview:
    """Give this thread's buffer."""
    if not hasattr(_buffers, "view"):
        _buffers.view = memoryview(bytearray(BUFFER_BYTES))
    return _buffers.view  # type: ignore[no-any-return]
