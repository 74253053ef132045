"""Log files of containers: read what is there, follow what is written, put several in order.

A container's log is its plain output. A restarted container begins a new file of the same name; whoever follows reads
the old one to its end first.
"""

import heapq
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

_CONTROL: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?")
_TAIL_BLOCK_BYTES: Final = 65536
_MOST_BYTES_AT_ONCE: Final = 1 << 20


def clean(line: str) -> str:
    """Take out control codes; of a progress bar that redraws itself its last picture stays."""
    line = line.rstrip("\r")
    return _CONTROL.sub("", line.rpartition("\r")[2])


def read_lines(path: Path, *, last: int | None = None) -> list[str]:
    """Read the lines of a log, or its last ones; an absent file has none."""
    try:
        with path.open("rb") as file:
            if last is not None:
                _seek_to_last(file, last)
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines if last is None else lines[len(lines) - min(last, len(lines)) :]


def _seek_to_last(file: BinaryIO, lines: int) -> None:
    """Go to a place that is at least so many lines before the end, without reading the whole file."""
    position = file.seek(0, os.SEEK_END)
    found = 0
    while position > 0 and found <= lines:
        step = min(_TAIL_BLOCK_BYTES, position)
        position = file.seek(position - step)
        found += file.read(step).count(b"\n")
    file.seek(position)


def interleave(logs: Iterable[tuple[str, list[str]]]) -> Iterator[tuple[str, str]]:
    """Merge the logs of several steps by the times that their lines begin with, as (step, line).

    A line without a time belongs to the one before it. Steps whose lines have no times follow in the order given.
    """
    return ((step, line) for _, _, step, line in heapq.merge(*(_timed(i, *log) for i, log in enumerate(logs))))


def _timed(order: int, step: str, lines: list[str]) -> Iterator[tuple[tuple[str, int], int, str, str]]:
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

    def read(self) -> list[str]:
        """Give the lines that were completed since the last call."""
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
            if not self._begun_anew():
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
        while block := self._file.read(_MOST_BYTES_AT_ONCE):
            *done, self._rest = (self._rest + block).split(b"\n")
            lines.extend(line.decode("utf-8", "replace") for line in done)
        return lines

    def _begun_anew(self) -> bool:
        assert self._file is not None
        try:
            now = self._path.stat()
        except FileNotFoundError:
            return False
        held = os.fstat(self._file.fileno())
        return (now.st_ino, now.st_dev) != (held.st_ino, held.st_dev)
