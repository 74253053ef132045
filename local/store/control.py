"""Requests to a running supervisor: a named pipe in the job's folder, one JSON object a line.

    {"request": "stop"} | {"request": "suspend"} | {"request": "resume"}

A second stop ends everything at once. Only the owner of the folder can write to it.
"""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from trainyard.local.engine.loop import Loop

Request = Literal["stop", "suspend", "resume"]
REQUESTS: Final = ("stop", "suspend", "resume")


class ControlPipe:
    """The supervisor's end."""

    def __init__(self, path: Path, loop: Loop, on_request: Callable[[Request], None]) -> None:
        self._path = path
        self._loop = loop
        self._on_request = on_request
        self._received = b""
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        # Open for writing too: the pipe would otherwise be at its end whenever no request is being written.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        loop.watch(self._fd, self._readable)

    def close(self) -> None:
        """Take no more requests."""
        self._loop.unwatch(self._fd)
        os.close(self._fd)
        self._path.unlink(missing_ok=True)

    def _readable(self) -> None:
        try:
            self._received += os.read(self._fd, 65536)
        except BlockingIOError:
            return
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            request = _parse(line)
            if request is not None:
                self._on_request(request)


def _parse(line: bytes) -> Request | None:
    try:
        raw: Any = json.loads(line)
    except ValueError:
        return None
    request = raw.get("request") if isinstance(raw, dict) else None
    return request if request in REQUESTS else None


def send(path: Path, request: Request) -> bool:
    """Hand a request to the supervisor; False when none listens."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    try:
        os.write(fd, json.dumps({"request": request}).encode() + b"\n")
    finally:
        os.close(fd)
    return True
