"""Copies what a container writes from a pipe into its log file.

A pipe, not the file itself, because programs open /dev/stdout and /dev/stderr again (`echo no > /dev/stderr`), which
would truncate a file. Standard library only: the keeper loads it.
"""

from __future__ import annotations

import os

from trainyard.local.containers.container_command import CANNOT_START, StartError

_CHUNK_BYTES = 1 << 16
"""What a pipe holds."""


class LogCopy:
    """One container's output on its way to the log."""

    def __init__(self) -> None:
        self.read_fd = -1
        """Readable when there is something to copy."""
        self._log_fd = -1

    def open(self, log_file: str) -> int:
        """Open log and pipe; give the end to write to, which the caller closes. Raises StartError."""
        try:
            self._log_fd = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartError(CANNOT_START, f"open the log file {log_file!r}: {error.strerror}") from error
        self.read_fd, write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        return write_fd

    def copy(self) -> bool:
        """Copy what is there; False when there is nothing now (after the end) or can be nothing more."""
        try:
            data = os.read(self.read_fd, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        more = bool(data)
        while data:
            try:
                data = data[os.write(self._log_fd, data) :]
            except OSError:
                return more  # A full disk costs log lines; stopping the container's output would cost the container.
        return more
