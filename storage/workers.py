"""Do one thing to many items with a few threads, holding only a few items at a time.

Results come as they finish, in the caller's thread, which is also where errors come out and where the caller can do
something between (`tick`). A failure stops everything: `stop` is set, for work that takes long to look at.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar, cast

Item = TypeVar("Item", bound=object)
Result = TypeVar("Result")

_TICK_SECONDS: Final = 0.5


def in_parallel(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int,
    stop: threading.Event,
    tick: Callable[[], None] = lambda: None,
) -> Iterator[Result]:
    """Give `work(item)` for every item, as they finish; at most twice `workers` items are in hand at once.

    Closing the iterator, or any error in it, sets `stop` and waits for the work in hand.
    """
    todo: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Result | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        while (item := todo.get()) is not None and not stop.is_set():
            try:
                done.put((work(item), None))
            except BaseException as error:
                done.put((None, error))

    threads: list[threading.Thread] = []
    remaining = iter(items)
    in_hand = 0
    exhausted = False
    try:
        while True:
            while not exhausted and in_hand < 2 * workers:
                item = next(remaining, None)
                if item is None:
                    exhausted = True
                    break
                todo.put(item)
                in_hand += 1
                if len(threads) < min(workers, in_hand):
                    threads.append(threading.Thread(target=run, name=f"worker-{len(threads)}", daemon=True))
                    threads[-1].start()
            if not in_hand:
                return
            tick()
            try:
                result, error = done.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                continue
            in_hand -= 1
            if error is not None:
                raise error
            yield cast(Result, result)
    finally:
        stop.set()
        for _ in threads:
            todo.put(None)
        for thread in threads:
            thread.join()
