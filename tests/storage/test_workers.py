import threading
from collections.abc import Iterator

import pytest

from trainyard.storage.workers import in_parallel


def test_every_item_is_done_once() -> None:
    done = in_parallel(lambda number: number * 2, range(1000), workers=4, stop=threading.Event())
    assert sorted(done) == [number * 2 for number in range(1000)]


def test_only_a_few_items_are_in_hand() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(1000):
            taken = number
            yield number

    results = in_parallel(lambda number: number, items(), workers=2, stop=threading.Event())
    next(results)
    assert taken <= 5
    results.close()  # type: ignore[attr-defined]


def test_an_error_comes_out_and_stops_the_rest() -> None:
    stop = threading.Event()
    entered = threading.Barrier(2, timeout=10)

    def work(number: int) -> int:
        if number < 2:
            entered.wait()
        if number == 0:
            raise ValueError("zero")
        assert stop.wait(10)
        return number

    before = threading.active_count()
    with pytest.raises(ValueError, match="zero"):
        list(in_parallel(work, range(100), workers=2, stop=stop))
    assert threading.active_count() == before


def test_an_error_of_the_items_comes_out() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("listing")

    with pytest.raises(ValueError, match="listing"):
        list(in_parallel(lambda number: number, items(), workers=2, stop=threading.Event()))


def test_the_caller_looks_while_work_takes_long() -> None:
    looked = threading.Event()
    results = in_parallel(lambda _: looked.wait(10), [1], workers=1, stop=threading.Event(), tick=looked.set)
    assert list(results) == [True]
