"""The Linux calls that Python does not offer, by ctypes; outside Linux they do nothing or raise OSError(ENOSYS).

Standard library only: the keeper loads it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

IS_LINUX = sys.platform.startswith("linux")

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def die_with_parent(number: int) -> None:
    """Have this signal sent to this process when its parent (the thread that forked it) ends."""
    if IS_LINUX:
        _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0))


def become_subreaper() -> None:
    """Make orphaned descendants children of this process instead of the machine's init."""
    if IS_LINUX:
        _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0))


def name_process(name: str) -> None:
    """Set the name that `ps` and `top` show."""
    if IS_LINUX:
        _check(_libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0))


def _unsupported() -> OSError:
    return OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
