"""One staging at a time in a folder: a lock file, held with flock(2) while the work lasts.

The kernel drops the lock when its holder dies, however it dies. Linux carries flock over NFS as a lock of the whole
file on the server (so two nodes exclude each other there too), unless the mount says `local_lock`; where a file system
knows no locks at all, the log says so and the work goes on without.

The lock file lies in a folder that its last holder removes; a waiter that then gets hold of a removed file notices it
by the inode and begins again.
"""

import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EBADF)

_log = logging.getLogger(__name__)


@contextmanager
def hold(path: Path) -> Iterator[bool]:
    """Hold the lock file `path`, making it and its folder; gives whether somebody else had it first."""
    waited = False
    while True:
        descriptor = _open(path)
        try:
            waited = _acquire(descriptor, path) or waited
            if _is_still(descriptor, path):
                break
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    try:
        yield waited
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    while True:
        try:
            path.parent.mkdir(exist_ok=True)
            return _open_for_any_user(path)
        except FileNotFoundError:
            if not path.parent.parent.is_dir():
                raise
            # The last holder removed the folder in between; make it again.


def _open_for_any_user(path: Path) -> int:
    flags = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDWR | flags, 0o644)  # NFS wants it open for writing.
    except PermissionError:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)


def _acquire(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.info("waiting for the initializer that is staging into %r", str(path.parent.parent))
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        _log.warning("%r is on a file system without locks; do not start two initializers on it", str(path.parent))
    return False


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        here, there = os.fstat(descriptor), path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
