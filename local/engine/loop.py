"""The event loop of a run: file descriptors, timers, and calls from other threads; one thread, no busy polling.

Everything that happens to a job (a container ended, a probe answered, a backoff is over, a request came in, Ctrl-C) is
a callback here, so the rest of the engine needs no lock.
"""

import heapq
import itertools
import os
import selectors
import time
from collections import deque
from collections.abc import Callable
from typing import Final

_LONGEST_WAIT_SECONDS: Final = 3600.0

Callback = Callable[[], None]


class Timer:
    """A callback at a moment; `cancel` makes it never happen."""

    __slots__ = ("callback", "cancelled", "when")

    def __init__(self, when: float, callback: Callback) -> None:
        self.when = when
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Make it never happen; harmless when it has happened."""
        self.cancelled = True


class Loop:
    """Runs callbacks until `stop`; only `call_soon_threadsafe` may be used from other threads or signal handlers."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._soon: deque[Callback] = deque()
        self._stopped = False
        self._closed = False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._drain)

    def call_later(self, delay_seconds: float, callback: Callback) -> Timer:
        """Run a callback after a delay."""
        timer = Timer(time.monotonic() + max(0.0, delay_seconds), callback)
        heapq.heappush(self._timers, (timer.when, next(self._order), timer))
        return timer

    def call_soon_threadsafe(self, callback: Callback) -> None:
        """Run a callback in the loop's thread at its next turn, waking it up."""
        if self._closed:
            return
        self._soon.append(callback)
        try:
            os.write(self._wake_write, b"x")
        except (BlockingIOError, OSError):
            pass  # A full pipe wakes as well as one more byte; a closed one has nobody to wake.

    def watch(self, fileno: int, callback: Callback, *, writable: bool = False) -> None:
        """Run a callback whenever a file descriptor is readable (or writable)."""
        self._selector.register(fileno, selectors.EVENT_WRITE if writable else selectors.EVENT_READ, callback)

    def unwatch(self, fileno: int) -> None:
        """Stop watching; harmless when it is not watched."""
        try:
            self._selector.unregister(fileno)
        except (KeyError, ValueError):
            pass

    def run(self, after_each_turn: Callback) -> None:
        """Run until `stop`, calling `after_each_turn` once before the first wait and after every turn."""
        after_each_turn()
        while not self._stopped:
            for key, _ in self._selector.select(self._wait_seconds()):
                if self._selector.get_map().get(key.fd) is key:  # An earlier callback of this turn may have ended it.
                    key.data()
            while self._soon:
                self._soon.popleft()()
            moment = time.monotonic()
            while self._timers and self._timers[0][0] <= moment:
                timer = heapq.heappop(self._timers)[2]
                if not timer.cancelled:
                    timer.callback()
            after_each_turn()

    def stop(self) -> None:
        """End `run` after the current turn."""
        self._stopped = True

    def close(self) -> None:
        """Release the descriptors."""
        self._closed = True
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _wait_seconds(self) -> float:
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        if self._soon:
            return 0.0
        if not self._timers:
            return _LONGEST_WAIT_SECONDS
        return min(_LONGEST_WAIT_SECONDS, max(0.0, self._timers[0][0] - time.monotonic()))

    def _drain(self) -> None:
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            pass
