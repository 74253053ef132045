"""What a file system can do beyond reading and writing: modes, flushing, reflinks, free space.

Each degrades where the file system cannot: FAT and many network mounts know no modes, only copy-on-write file systems
(XFS, Btrfs, APFS, bcachefs) know reflinks.
"""

import errno
import fcntl
import os
import sys
from pathlib import Path
from typing import Final

from trainyard.contract.errors import NoSpaceError

_FICLONE: Final = 0x40049409
"""ioctl_ficlone(2): make one file share all blocks of another until either is written."""
_UNSUPPORTED: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def set_mode(target: int | Path, mode: int) -> None:
    """Set permissions whatever the umask says; where the file system has none, nothing happens."""
    try:
        if isinstance(target, int):
            os.fchmod(target, mode)
        else:
            target.chmod(mode)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def fsync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:  # Some network file systems flush files only.
            raise
    finally:
        os.close(descriptor)


def sync_file_system(folder: Path) -> None:
    """Bring everything of the file system that holds `folder` to the disk, in one go."""
    # Imported here: only a staging of many files needs it, and it costs 10 ms.
    import ctypes

    sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if sync is None:
        os.sync()
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if sync(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    finally:
        os.close(descriptor)


def reflink(source: int, target: int) -> bool:
    """Let the empty file `target` share the blocks of `source`; say whether the file system did it."""
    if sys.platform != "linux":
        return False  # The number below means something else there.
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def can_reflink(source: int, folder: Path) -> bool:
    """Try whether a file in `folder` could share blocks with the open file `source`."""
    trial = folder / "reflink.partial"
    try:
        with open(trial, "wb") as file:
            return reflink(source, file.fileno())
    except OSError:
        return False
    finally:
        trial.unlink(missing_ok=True)


def require_space(folder: Path, sizes_bytes: int, files: int, *, freed_bytes: int, doing: str) -> None:
    """Raise NoSpaceError when so many more bytes and files cannot fit into the file system of `folder`.

    `freed_bytes` will be given back first. A file system that does not say how much is free is believed to have it.
    """
    status = os.statvfs(folder)
    if status.f_blocks == 0:
        return
    free = status.f_bavail * status.f_frsize + freed_bytes
    if sizes_bytes > free:
        raise NoSpaceError(f"{doing}: needs {sizes_bytes} bytes in {files} files, only {free} bytes are free")
    if status.f_files and status.f_favail < files and status.f_favail < status.f_files:
        raise NoSpaceError(f"{doing}: needs {files} files, the file system has room for {status.f_favail} more")
