"""CPU threads of each process."""

import os

from trainyard.trainers.torchtune.threads import environment_of_each, threads_of_each


def test_the_cores_are_shared_and_each_process_has_one() -> None:
    whole = threads_of_each(1)
    assert 1 <= whole <= (os.cpu_count() or 1)
    assert threads_of_each(2) == max(1, whole // 2)
    assert threads_of_each(10_000) == 1


def test_what_the_user_set_is_left_alone() -> None:
    assert environment_of_each(2, {"OMP_NUM_THREADS": "7"}) == {}
    assert environment_of_each(10_000, {}) == {"OMP_NUM_THREADS": "1"}
