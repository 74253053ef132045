"""Log files of containers: read what is there, follow what is written, put several in order.

A container's log is its plain output. A restarted container begins a new file of the same name; whoever follows reads
the old one to its end first.
"""

import heapq
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

_CONTROL: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?")
_TAIL_BLOCK_BYTES: Final = 65536
_BLOCK_BYTES: Final = 1 << 20
_MOST_BYTES_AT_ONCE: Final = 4 << 20
"""A container may write faster than anybody can show; what follows its log must not grow with it."""
_LONGEST_LINE_BYTES: Final = 32 << 20
"""A longer line is shown in pieces."""


def clean(line: str) -> str:
    """Take out control codes; of a progress bar that redraws itself its last picture stays."""
    if line.isprintable():
        return line
    line = line.rstrip("\r")
    return _CONTROL.sub("", line.rpartition("\r")[2])


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLines:
    """The lines of a log, or its last ones, read anew by every loop over them; an absent file has none."""

    path: Path
    """The log."""
    last: int | None = None
    """Only so many lines of its end."""

    def __iter__(self) -> Iterator[str]:
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            if self.last is not None:
                _seek_to_last(file, self.last)
            lines: Iterable[bytes] = file if self.last is None else deque(file, self.last)
            for line in lines:
                yield line.removesuffix(b"\n").decode("utf-8", "replace")


def read_lines(path: Path, *, last: int | None = None) -> list[str]:
    """Read the lines of a log, or its last ones, at once."""
    return list(LogLines(path=path, last=last))


def _seek_to_last(file: BinaryIO, lines: int) -> None:
    """Go to a place that is at least so many lines before the end, without reading the whole file."""
    position = file.seek(0, os.SEEK_END)
    found = 0
    while position > 0 and found <= lines:
        step = min(_TAIL_BLOCK_BYTES, position)
        position = file.seek(position - step)
        found += file.read(step).count(b"\n")
    file.seek(position)


def interleave(logs: Iterable[tuple[str, Iterable[str]]]) -> Iterator[tuple[str, str]]:
    """Merge the logs of several steps by the times that their lines begin with, as (step, line).

    A line without a time belongs to the one before it. Steps whose lines have no times follow in the order given.
    Lines are gone through twice.
    """
    return ((step, line) for _, _, step, line in heapq.merge(*(_timed(i, *log) for i, log in enumerate(logs))))


def _timed(order: int, step: str, lines: Iterable[str]) -> Iterator[tuple[tuple[str, int], int, str, str]]:
    first = next((found.group() for found in map(_TIME.match, lines) if found), "")
    time = first
    for number, line in enumerate(lines):
        found = _TIME.match(line)
        time = max(time, found.group()) if found else time
        yield (time, order), number, step, line


class LogTail:
    """Follows one log file that may not exist yet, and that may be begun anew."""

    def __init__(self, path: Path, *, last: int | None = None) -> None:
        """Begin with what is there, or with its `last` lines only."""
        self._path = path
        self._last = last
        self._file: BinaryIO | None = None
        self._rest = b""
        self.has_more = False
        """Whether more was written than the last `read` gave."""

    def read(self) -> list[str]:
        """Give the lines that were completed since the last call, up to some megabytes of them."""
        lines: list[str] = []
        while True:
            if self._file is None:
                try:
                    self._file = self._path.open("rb")
                except FileNotFoundError:
                    return lines
                if self._last is not None:
                    _seek_to_last(self._file, self._last)
            completed = self._completed()
            if self._last is not None:
                completed = completed[max(0, len(completed) - self._last) :]
                self._last = None
            lines.extend(completed)
            if self.has_more or not self._begun_anew():
                return lines
            lines.extend(self.close())

    def close(self) -> list[str]:
        """Give the unfinished last line, if any, and stop following."""
        lines = [self._rest.decode("utf-8", "replace")] if self._rest else []
        self._rest = b""
        if self._file is not None:
            self._file.close()
            self._file = None
        return lines

    def _completed(self) -> list[str]:
        assert self._file is not None
        lines: list[str] = []
        size = 0
        self.has_more = False
        while block := self._file.read(_BLOCK_BYTES):
            *done, self._rest = (self._rest + block).split(b"\n")
            lines.extend(line.decode("utf-8", "replace") for line in done)
            if len(self._rest) > _LONGEST_LINE_BYTES:
                lines.append(self._rest.decode("utf-8", "replace"))
                self._rest = b""
            size += len(block)
            if size >= _MOST_BYTES_AT_ONCE and self._last is None:
                self.has_more = True
                break
        return lines

    def _begun_anew(self) -> bool:
        assert self._file is not None
        try:
            now = self._path.stat()
        except FileNotFoundError:
            return False
        held = os.fstat(self._file.fileno())
        return (now.st_ino, now.st_dev) != (held.st_ino, held.st_dev)
