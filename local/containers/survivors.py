"""Finds and kills processes of containers by the marker in their environment.

Needed only when a keeper was killed, or by `delete` after a crash: a keeper itself leaves nothing. A marker is
`<record file>/<container id>`, so the path of a job's folder finds everything of that job.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trainyard.local.containers import process_tree

MARKER: Final = "TRAINYARD_CONTAINER_ID"
"""Environment variable of every process of a container, and of its keeper."""

_DEADLINE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.01


def find_survivors(marker: str | Path) -> list[int]:
    """List the processes of the container with this marker, or of all whose record file lies below this folder.

    Descendants count, also those that changed their environment. This process is never among them.
    """
    wanted = os.fsencode(os.path.realpath(marker))
    found = {pid for pid, value in _marked() if value == wanted or value.startswith(wanted + b"/")}
    found -= {os.getpid()}
    if found:
        found |= process_tree.descendants(found) - {os.getpid()}
    return sorted(found)


def kill_survivors(marker: str | Path) -> list[int]:
    """Kill the processes that `find_survivors` finds until there are none; give those that would not die in time."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while True:
        left = find_survivors(marker)
        if not left or time.monotonic() > deadline:
            return left
        for pid in left:
            process_tree.send(pid, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)


def _marked() -> Iterator[tuple[int, bytes]]:
    if not sys.platform.startswith("linux"):
        yield from _marked_by_ps()
        return
    name = f"{MARKER}=".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environ = (folder / "environ").read_bytes()  # Empty for a zombie.
            except OSError:
                continue  # It ended meanwhile, or is somebody else's.
            for variable in environ.split(b"\0"):
                if variable.startswith(name):
                    yield int(folder.name), variable[len(name) :]


def _marked_by_ps() -> Iterator[tuple[int, bytes]]:
    """Read the environment as macOS shows it: behind the command, blanks not quoted."""
    out = subprocess.run(
        ["ps", "eww", "-axo", "pid=,command="],
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},  # Not ours: it may hold the very marker.
    )
    pattern = re.compile(rb"\s*(\d+) .*? " + MARKER.encode() + rb"=(.*?)(?: [A-Za-z_][A-Za-z0-9_]*=|$)")
    for line in out.stdout.splitlines():
        if match := pattern.match(line):
            yield int(match[1]), match[2]
