"""The Linux calls that Python does not offer, by ctypes; elsewhere only the first three may be called,
and do nothing.

Standard library only: the keeper loads it. All raise OSError.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

IS_LINUX = sys.platform.startswith("linux")

# <linux/sched.h>
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

# <linux/mount.h>
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_UNBINDABLE = 0x20000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
_MNT_DETACH = 2

# mount_setattr(2), Linux 5.12; system calls from 424 on have one number on every architecture.
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, place: str | None = None) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), place)


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


def unshare(flags: int) -> None:
    """Leave the namespaces that the flags name, for new ones; a new pid namespace is for the next child."""
    try:
        _check(_libc.unshare(flags))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            error.strerror = "no more namespaces are allowed (sysctl user.max_*_namespaces)"
        raise


def enter_user_namespace(flags: int) -> None:
    """Unshare with a new user namespace in which this user and group keep their numbers."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | flags)
    for file, text in (("uid_map", f"{uid} {uid} 1"), ("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{file}", "w") as stream:
            stream.write(text)


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount, bind, move or change a mount: mount(2)."""
    words = (None if word is None else os.fsencode(word) for word in (source, target, kind))
    _check(_libc.mount(*words, ctypes.c_ulong(flags), None if options is None else options.encode()), target)


def make_read_only(target: str) -> None:
    """Make a bind mount, and those below it, read-only."""
    attributes = (ctypes.c_uint64 * 4)(
        _MOUNT_ATTR_RDONLY, 0, 0, 0
    )  # struct mount_attr: set, clear, propagation, userns
    try:
        _check(
            _libc.syscall(
                *(_SYS_MOUNT_SETATTR, _AT_FDCWD, ctypes.c_char_p(os.fsencode(target)), _AT_RECURSIVE),
                *(ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes))),
            )
        )
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        # An older kernel: this mount alone, keeping the flags that a user namespace may not drop.
        kept = os.statvfs(target).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
        mount(None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def change_root(root: str) -> None:
    """Make a mounted folder the root of this mount namespace, and let go of the old one."""
    os.chdir(root)
    _check(_libc.pivot_root(b".", b"."))  # The old root now lies on top of the new one: pivot_root(2).
    _check(_libc.umount2(b".", _MNT_DETACH))
    os.chdir("/")


def set_hostname(name: str) -> None:
    """Name the host of this UTS namespace."""
    encoded = name.encode()
    _check(_libc.sethostname(encoded, ctypes.c_size_t(len(encoded))))
