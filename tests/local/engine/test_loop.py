"""The event loop waits for what it was told to wait for, and for nothing else."""

import os
import threading
import time

import pytest

from trainyard.local.engine.loop import Loop


@pytest.fixture
def loop():
    made = Loop()
    yield made
    made.close()


def test_timers_fire_in_the_order_of_their_times_and_cancelled_ones_never(loop):
    fired = []
    loop.call_later(0.03, lambda: (fired.append("last"), loop.stop()))
    loop.call_later(0.02, lambda: fired.append("cancelled")).cancel()
    loop.call_later(0.01, lambda: fired.append("first"))
    loop.run(lambda: None)
    assert fired == ["first", "last"]


def test_another_thread_wakes_it_up(loop):
    called_in = []

    def call():
        called_in.append(threading.current_thread())
        loop.stop()

    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(call,))
    thread.start()
    loop.run(lambda: None)
    thread.join()
    assert called_in == [threading.current_thread()]


def test_a_watched_descriptor_calls_until_it_is_unwatched(loop):
    read, write = os.pipe()
    got = []

    def readable():
        got.append(os.read(read, 1))
        if len(got) == 2:
            loop.unwatch(read)
            loop.call_later(0.02, loop.stop)

    loop.watch(read, readable)
    os.write(write, b"abc")
    loop.run(lambda: None)
    os.close(read)
    os.close(write)
    assert got == [b"a", b"b"]


def test_waiting_costs_no_cpu(loop):
    turns = []
    loop.call_later(0.2, loop.stop)
    before = time.process_time()
    loop.run(lambda: turns.append(1))
    assert len(turns) <= 3 and time.process_time() - before < 0.1


def test_a_call_after_the_end_is_dropped(loop):
    loop.stop()
    loop.run(lambda: None)
    other = Loop()
    other.close()
    other.call_soon_threadsafe(lambda: pytest.fail("called"))
