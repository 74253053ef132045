"""Which process is whose child, and killing all that descend from this one.

Standard library only and quick to import: the keeper loads it. Linux reads /proc; elsewhere `ps` is asked.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # The keeper starts once per container: it does not pay for `typing`.
if TYPE_CHECKING:
    from collections.abc import Callable
    from resource import struct_rusage


def parents() -> dict[int, int]:
    """Map every process that can be seen to its parent."""
    if not sys.platform.startswith("linux"):
        return _parents_by_ps()
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 -- pathlib costs the keeper its start-up time
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The second field, the name, may hold blanks and brackets; the last bracket ends it.
                    found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue  # It ended meanwhile.
    return found


def _parents_by_ps() -> dict[int, int]:
    import subprocess

    out = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    pairs = [line.split() for line in out.stdout.splitlines()]
    return {int(pair[0]): int(pair[1]) for pair in pairs if len(pair) == 2}


def descendants(ancestors: set[int]) -> set[int]:
    """Find all processes below the given ones, children of children included, without the given ones."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    todo = list(ancestors)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found and child not in ancestors:
                found.add(child)
                todo.append(child)
    return found


def send(pid: int, number: int) -> None:
    """Send a signal; a process that is gone or not ours needs none."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def send_to_group(pid: int, number: int) -> None:
    """Send a signal to the process group that a process leads, or to it alone before it leads one."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        send(pid, number)
    except PermissionError:
        pass  # macOS says so for a group of zombies.


def kill_all_below(reap: Callable[[int, int, struct_rusage], None]) -> None:
    """Kill every descendant of this process and reap all children; `reap(pid, status, rusage)` hears of each.

    This process must be a child subreaper: then an orphan becomes its child, and "no child is left" means that nothing
    is. Each round kills what it sees before it waits; children first, because the kernel lists them in microseconds,
    which a process that keeps forking to get away does not outrun, and killing them makes their children ours.
    """
    while True:
        for pid in _children() or descendants({os.getpid()}):
            send(pid, signal.SIGKILL)
        options = 0
        while True:
            try:
                pid, status, usage = os.wait4(-1, options)
            except ChildProcessError:
                return
            if pid == 0:
                break
            reap(pid, status, usage)
            options = os.WNOHANG


def _children() -> list[int]:
    """List this process's children as far as the kernel offers it; some may be missing."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []
