"""How far a staging is: counted by its threads, looked at from outside."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class StageProgress:
    """A moment of a staging."""

    files: int
    """Files that are in place."""
    files_total: int | None
    """None while the listing goes on."""
    bytes: int
    """Bytes that are in place or on the way."""
    bytes_total: int | None
    """None while the listing goes on, or where it does not tell sizes."""
    bytes_moved: int
    """Bytes read in this run: without what was there already."""
    seconds: float
    """Since the first byte could move."""

    @property
    def percent(self) -> int | None:
        """0 to 100, None when unknown; 100 only when every file is in place."""
        if self.bytes_total is None or self.files_total is None:
            return None
        if self.files == self.files_total:
            return 100
        done, total = (self.bytes, self.bytes_total) if self.bytes_total else (self.files, self.files_total)
        return min(99, done * 100 // total)

    @property
    def bytes_per_second(self) -> float:
        """Mean rate of this run."""
        return self.bytes_moved / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining_seconds(self) -> int | None:
        """Estimate from the mean rate; None while nothing is known."""
        if self.bytes_total is None or not self.bytes_per_second:
            return None
        return round(max(0, self.bytes_total - self.bytes) / self.bytes_per_second)


Observer = Callable[[StageProgress], None]


class Meter:
    """Counts bytes and files; threads add, the caller's thread looks."""

    def __init__(self, observer: Observer | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._observer = observer
        self._clock = clock
        self._started = clock()
        self._next_look = self._started
        self._lock = threading.Lock()
        self._files = 0
        self._files_total: int | None = None
        self._bytes = 0
        self._bytes_total: int | None = None
        self._moved = 0

    def expect(self, files: int, size_bytes: int | None) -> None:
        """Set the totals, once they are known."""
        self._files_total, self._bytes_total = files, size_bytes

    def moved(self, count: int) -> None:
        """Count bytes that were read."""
        with self._lock:
            self._bytes += count
            self._moved += count

    def take_back(self, count: int) -> None:
        """Uncount bytes of a file that begins anew."""
        with self._lock:
            self._bytes -= count

    def kept(self, size_bytes: int) -> None:
        """Count a file that was there already."""
        with self._lock:
            self._files += 1
            self._bytes += size_bytes

    def finished(self) -> None:
        """Count a file that is in place now."""
        with self._lock:
            self._files += 1

    def now(self) -> StageProgress:
        """Look."""
        with self._lock:
            return StageProgress(
                files=self._files,
                files_total=self._files_total,
                bytes=self._bytes,
                bytes_total=self._bytes_total,
                bytes_moved=self._moved,
                seconds=self._clock() - self._started,
            )

    def tick(self, *, at_once: bool = False) -> None:
        """Let the observer look, at most twice a second unless `at_once`."""
        if self._observer is None or (self._clock() < self._next_look and not at_once):
            return
        self._next_look = self._clock() + _LOOK_SECONDS
        self._observer(self.now())
