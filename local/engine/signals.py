"""Signals as calls, while a run lasts."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


@contextmanager
def caught(signals: Sequence[signal.Signals], on_signal: Callable[[int], None]) -> Iterator[None]:
    """Call a function instead of what the signals did before. Does nothing outside the main thread, which owns them."""

    def handler(signum: int, _: FrameType | None) -> None:
        on_signal(signum)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signum: signal.signal(signum, handler) for signum in signals}
    try:
        yield
    finally:
        for signum, old in before.items():
            signal.signal(signum, old)
