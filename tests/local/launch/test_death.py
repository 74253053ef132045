"""Whoever is killed with -9 (the supervisor, a keeper, a container's first process), nothing is left."""

import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainyard.local.containers import process_tree
from trainyard.local.containers.isolation import Isolation, detect_isolation
from trainyard.local.containers.launch import ContainerEnd, ContainerLaunch, ContainerProcess, start
from trainyard.local.containers.survivors import find_survivors, kill_survivors

pytestmark = pytest.mark.needs("linux")

STARTER = Path(__file__).with_name("starter.py")
DEADLINE_SECONDS = 30.0


def until(is_true: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"never came: {what}"
        select.select([], [], [], 0.005)


def wait(process: ContainerProcess) -> ContainerEnd:
    until(lambda: select.select([process], [], [], 1.0) and process.poll(), "the end")
    end = process.poll()
    assert end is not None
    process.close()
    return end


def alive(word: str) -> list[int]:
    """Find the processes that have a word in their command line, but for this test's own children."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.fixture
def nap() -> str:
    """Seconds to sleep that no other process sleeps."""
    return f"1000.{uuid.uuid4().int}"


def script(nap: str) -> str:
    """Sleep, and have a daemon in a session of its own that sleeps."""
    return f"setsid setsid sh -c 'sleep {nap}; true' & trap '' TERM HUP INT; echo $$; sleep {nap}; true"


@pytest.fixture
def supervisor(tmp_path: Path, isolation: Isolation, nap: str) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Start a supervisor with three containers; give its pid and theirs."""
    processes: list[subprocess.Popen[str]] = []

    def begin(mode: str) -> dict[str, Any]:
        launches = [
            {"argv": ["sh", "-c", script(nap)], "name": f"c{n}", "folder": str(tmp_path), "mounts": []}
            for n in range(3)
        ]
        process = subprocess.Popen(
            [sys.executable, str(STARTER), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin:
            json.dump({"launches": launches, "isolation": dataclasses.asdict(isolation)}, process.stdin)
        told: dict[str, Any] = json.loads(process.stdout.readline())
        until(lambda: len(find_survivors(tmp_path)) >= 3 * 5, "all processes")
        return told | {"pid": process.pid}

    yield begin
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    until(lambda: not find_survivors(tmp_path), "the end of all")
    until(lambda: not alive(nap), "the end of all")


def test_a_killed_supervisor_leaves_nothing(
    supervisor: Callable[[str], dict[str, Any]], tmp_path: Path, nap: str
) -> None:
    told = supervisor("hold")
    os.kill(told["pid"], signal.SIGKILL)
    until(lambda: not find_survivors(tmp_path), "the end of all")
    assert not alive(nap)
    for number, (keeper, pid) in enumerate(told["pids"]):
        record = json.loads((tmp_path / f"c{number}.message.process.json").read_text())
        assert (record["state"], record["exit_code"], record["signal"]) == ("ended", 137, 9)
        assert (record["keeper_pid"], record["pid"]) == (keeper, pid)
        assert record["message"] == "trainyard ended and with it everything that it had started"


def test_a_killed_supervisor_whose_child_lives_on_leaves_nothing(
    supervisor: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    told = supervisor("leak")
    os.kill(told["pid"], signal.SIGKILL)
    until(lambda: not find_survivors(tmp_path), "the end of all")
    os.kill(told["child"], signal.SIGKILL)  # It held a copy of every descriptor until here.


def test_a_killed_keeper_ends_its_container_alone(
    supervisor: Callable[[str], dict[str, Any]], tmp_path: Path, isolation: Isolation
) -> None:
    told = supervisor("hold")
    keeper, command = told["pids"][1]
    os.kill(keeper, signal.SIGKILL)
    until(lambda: command not in find_survivors(tmp_path), "the end of the command")
    if isolation.pid_namespace:
        until(lambda: not find_survivors(f"{tmp_path}/c1.message.process.json"), "the end of its daemon")
    assert len(find_survivors(f"{tmp_path}/c0.message.process.json")) >= 4
    # What `delete` does after a crash.
    assert kill_survivors(f"{tmp_path}/c1.message.process.json") == []
    assert len(find_survivors(f"{tmp_path}/c2.message.process.json")) >= 4


def test_everything_of_a_job_is_found_and_killed_by_its_folder(
    supervisor: Callable[[str], dict[str, Any]], tmp_path: Path, nap: str
) -> None:
    told = supervisor("hold")
    for keeper, _ in told["pids"]:
        os.kill(keeper, signal.SIGSTOP)  # The worst: keepers that cannot do their work.
    os.kill(told["pid"], signal.SIGKILL)
    found = find_survivors(tmp_path)
    assert {pid for pair in told["pids"] for pid in pair} <= set(found)
    assert find_survivors(str(tmp_path)[:-1]) == []
    assert kill_survivors(tmp_path) == []
    assert not alive(nap)


def begin(folder: Path, isolation: Isolation, nap: str) -> ContainerProcess:
    launch = ContainerLaunch(
        argv=("sh", "-c", script(nap)),
        environment={"PATH": "/usr/bin:/bin"},
        log_file=folder / "log",
        termination_file=folder / "message",
    )
    process = start(launch, isolation)
    until(lambda: process.poll() is not None or (process.is_started and len(alive(nap)) >= 3), "the start")
    return process


def test_a_killed_keeper_is_an_end_like_any(tmp_path: Path, isolation: Isolation, nap: str) -> None:
    process = begin(tmp_path, isolation, nap)
    os.kill(process.keeper_pid, signal.SIGKILL)
    end = wait(process)
    assert (end.exit_code, end.signal, end.reason) == (137, 9, "Error")
    assert end.message == f"the container's keeper (pid {process.keeper_pid}) was killed, and with it the container"
    assert not alive(nap)


def test_a_container_outlives_the_thread_that_started_it(tmp_path: Path, isolation: Isolation, nap: str) -> None:
    found: list[ContainerProcess] = []
    thread = threading.Thread(target=lambda: found.append(begin(tmp_path, isolation, nap)))
    thread.start()
    thread.join()
    os.kill(found[0].keeper_pid, signal.SIGUSR1)  # What the thread's end has sent, once more.
    select.select([found[0]], [], [], 0.1)
    assert found[0].poll() is None
    assert alive(nap)
    found[0].kill()
    assert wait(found[0]).exit_code == 137


def test_letting_go_of_a_container_ends_it(tmp_path: Path, isolation: Isolation, nap: str) -> None:
    process = begin(tmp_path, isolation, nap)
    del process
    assert not find_survivors(tmp_path)
    assert not alive(nap)


@pytest.mark.needs("namespace")
def test_a_killed_first_process_ends_the_container(tmp_path: Path, nap: str) -> None:
    process = begin(tmp_path, detect_isolation("namespace"), nap)
    first = min(process_tree.descendants({process.keeper_pid}))
    os.kill(first, signal.SIGKILL)
    assert wait(process).exit_code == 137
    assert not alive(nap)
