"""One container, from its start to its end, with and without namespaces."""

import json
import os
import select
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainyard.local.containers import process_tree
from trainyard.local.containers.isolation import Isolation
from trainyard.local.containers.launch import ContainerEnd, ContainerLaunch, ContainerProcess, start
from trainyard.local.containers.survivors import find_survivors

DEADLINE_SECONDS = 30.0
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def wait(process: ContainerProcess) -> ContainerEnd:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (end := process.poll()) is None:
        assert time.monotonic() < deadline, "the container did not end"
        select.select([process.wait_fd], [], [], 1.0)
    return end


def until(is_true: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"never came: {what}"
        select.select([], [], [], 0.005)


class Runner:
    """Starts containers of one test and takes care that all have ended."""

    def __init__(self, folder: Path, isolation: Isolation) -> None:
        self.folder = folder
        self.isolation = isolation
        self.processes: list[ContainerProcess] = []
        self.nap = f"1000.{uuid.uuid4().int}"
        """Seconds to sleep that no other process sleeps."""

    def launch(self, *argv: str, **changes: Any) -> ContainerLaunch:
        number = len(self.processes)
        fields: dict[str, Any] = {
            "argv": argv,
            "environment": ENVIRONMENT,
            "log_file": self.folder / f"{number}.log",
            "termination_file": self.folder / f"{number}.message",
        }
        return ContainerLaunch(**fields | changes)

    def start(self, *argv: str, **changes: Any) -> ContainerProcess:
        process = start(self.launch(*argv, **changes), self.isolation)
        self.processes.append(process)
        return process

    def run(self, *argv: str, **changes: Any) -> ContainerEnd:
        return wait(self.start(*argv, **changes))

    def shell(self, script: str, **changes: Any) -> ContainerEnd:
        return self.run("sh", "-c", script, **changes)

    def log(self, number: int = -1) -> bytes:
        return (self.folder / f"{number % len(self.processes)}.log").read_bytes()

    def started(self, script: str, **changes: Any) -> ContainerProcess:
        """Start a shell script that says `ready`."""
        process = self.start("sh", "-c", script, **changes)
        number = len(self.processes) - 1
        file = self.folder / f"{number}.log"
        until(lambda: process.poll() is not None or (file.exists() and b"ready" in file.read_bytes()), "ready")
        assert process.poll() is None, self.log()
        return process


@pytest.fixture
def runner(tmp_path: Path, isolation: Isolation) -> Iterator[Runner]:
    runner = Runner(tmp_path, isolation)
    yield runner
    for process in runner.processes:
        process.kill()
        wait(process)
        process.close()
    assert find_survivors(tmp_path) == []


@pytest.mark.parametrize("code", [0, 1, 65, 255])
def test_the_exit_code_is_the_commands(runner: Runner, code: int) -> None:
    end = runner.shell(f"exit {code}")
    assert (end.exit_code, end.signal) == (code, None)
    assert end.reason == ("Error" if code else "Completed")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT], ids=str)
def test_a_signal_gives_128_and_its_number(runner: Runner, number: int) -> None:
    end = runner.shell(f"kill -{int(number)} $$")
    assert (end.exit_code, end.signal, end.reason) == (128 + number, number, "Error")


def test_output_of_both_streams_is_appended_to_the_log(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "0.log").write_text("before\n")
    runner.shell("echo out; echo err >&2; sh -c 'echo child'")
    assert runner.log() == b"before\nout\nerr\nchild\n"


def test_opening_the_streams_again_keeps_the_log(runner: Runner) -> None:
    runner.shell("echo one; echo two > /dev/stderr; echo three > /dev/stdout; echo four")
    assert runner.log() == b"one\ntwo\nthree\nfour\n"


def test_output_after_all_streams_were_closed_needs_no_cpu(runner: Runner) -> None:
    assert runner.shell("exec >&- 2>&-; sleep 0.1").exit_code == 0
    assert runner.log() == b""


def test_a_huge_output_arrives_whole(runner: Runner) -> None:
    assert runner.shell("head -c 50000000 /dev/zero; head -c 50000000 /dev/zero >&2").exit_code == 0
    assert len(runner.log()) == 100_000_000


def test_the_environment_is_the_given_one_and_the_marker(runner: Runner) -> None:
    given = {"PATH": "/usr/bin:/bin", "A": "1=2 \n3", "EMPTY": "", "ODD": "\udcff\udcfe", "LANG": "C"}
    runner.run("env", "-0", environment=given)
    found = dict(item.split(b"=", 1) for item in runner.log().split(b"\0") if item)
    marker = found.pop(b"TRAINYARD_CONTAINER_ID")
    assert found == {os.fsencode(name): os.fsencode(value) for name, value in given.items()}
    assert marker.startswith(bytes(runner.folder))


def test_arguments_pass_as_bytes(runner: Runner) -> None:
    runner.run("printf", "%s|", "two words", "", "\udcff", "$HOME", "é")
    assert runner.log() == b"two words||\xff|$HOME|" + "é".encode() + b"|"


def test_working_directory_umask_and_standard_input(runner: Runner, tmp_path: Path) -> None:
    folder = tmp_path / "with space \udcff"
    folder.mkdir()
    assert runner.shell("pwd -P; umask; cat; touch made", working_dir=folder, umask=0o027).exit_code == 0
    assert runner.log() == os.fsencode(folder.resolve()) + b"\n0027\n"
    assert (folder / "made").stat().st_mode & 0o777 == 0o640


@pytest.mark.needs("linux")
def test_signals_start_with_their_defaults(runner: Runner) -> None:
    runner.run("cat", "/proc/self/status")
    masks = {
        line.split()[0]: int(line.split()[1], 16)
        for line in runner.log().splitlines()
        if line.startswith((b"SigBlk", b"SigIgn", b"SigCgt"))
    }
    # 32 and 33 belong to the C library, which lets nobody change them: they are as whoever started this test left them.
    theirs = 1 << 31 | 1 << 32
    assert {name: mask & ~theirs for name, mask in masks.items()} == {b"SigBlk:": 0, b"SigIgn:": 0, b"SigCgt:": 0}


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("no-such-command",), 127, "no such command in PATH '/usr/local/bin:/usr/bin:/bin'"),
        (("/no/such/file",), 127, "no such file"),
        (("./relative",), 127, "no such file"),
        (("/etc/passwd",), 126, "not an executable file"),
        (("/etc",), 126, "not an executable file"),
        (("nul\0byte",), 128, "null byte"),
    ],
    ids=["name", "path", "relative", "not-executable", "folder", "nul"],
)
def test_a_command_that_cannot_start_is_told(runner: Runner, argv: tuple[str, ...], code: int, words: str) -> None:
    end = runner.run(*argv)
    assert (end.exit_code, end.signal, end.reason) == (code, None, "StartError")
    assert words in end.message
    assert repr(argv[0]) in end.message


def test_a_missing_interpreter_and_a_foreign_program_are_told_apart(runner: Runner, tmp_path: Path) -> None:
    for name, content in (("script", "#!/no/such/interpreter\n"), ("foreign", "\x7fELF nonsense")):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    end = runner.run(str(tmp_path / "script"))
    assert (end.exit_code, "interpreter" in end.message) == (127, True)
    end = runner.run(str(tmp_path / "foreign"))
    assert (end.exit_code, "neither a program" in end.message) == (126, True)


def test_a_missing_working_directory_is_told(runner: Runner, tmp_path: Path) -> None:
    end = runner.run("true", working_dir=tmp_path / "gone")
    assert (end.exit_code, end.reason) == (128, "StartError")
    assert end.message == f"change to the working directory {str(tmp_path / 'gone')!r}: No such file or directory"


def test_an_unwritable_log_is_told(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "0.log").mkdir()
    end = runner.run("true")
    assert (end.exit_code, end.reason) == (128, "StartError")
    assert "0.log" in end.message


@pytest.mark.parametrize(("words", "variables"), [(1, 0), (10_000, 0), (0, 1)], ids=["word", "words", "variable"])
def test_more_than_exec_takes_is_told(runner: Runner, words: int, variables: int) -> None:
    big = "x" * (20_000_000 // max(1, words))
    end = runner.run("true", *[big] * words, environment=ENVIRONMENT | {str(n): big for n in range(variables)})
    assert (end.exit_code, end.reason) == (126, "StartError")
    assert "more than this system takes" in end.message
    assert len(end.message) < 300


def test_the_command_is_found_in_the_given_path(runner: Runner, tmp_path: Path) -> None:
    shim = tmp_path / "shims" / "ls"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\necho shim\n")
    shim.chmod(0o755)
    runner.run("ls", environment={"PATH": f"{shim.parent}:/usr/bin:/bin"})
    assert runner.log() == b"shim\n"


def test_the_termination_message_is_the_files_end(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "0.message").write_text("of an earlier start")
    assert runner.shell("true").message == ""
    file = tmp_path / "1.message"
    end = runner.shell(f"head -c 5000 /dev/zero | tr '\\0' x > {file}; printf 'last \\377' >> {file}; exit 3")
    assert (len(end.message), end.message[-6:], end.exit_code) == (4096, "last �", 3)


def test_the_logs_end_stands_in_for_a_missing_message(runner: Runner) -> None:
    assert runner.shell("echo why; exit 1", logs_are_message=True).message == "why"
    assert runner.shell("echo fine", logs_are_message=True).message == ""
    assert runner.shell("echo why; exit 1").message == ""


def test_the_pid_is_the_commands(runner: Runner) -> None:
    process = runner.started("echo ready; exec sleep 1000")
    until(lambda: process.poll() is not None or process.is_started, "the report of the start")
    assert os.getpgid(process.pid) == process.pid
    record = json.loads(runner.launch("x").record_path.with_name("0.message.process.json").read_text())
    assert (record["pid"], record["keeper_pid"], record["state"]) == (process.pid, process.keeper_pid, "running")
    os.kill(process.pid, signal.SIGKILL)
    assert wait(process).exit_code == 137


def test_terminate_reaches_the_whole_process_group(runner: Runner) -> None:
    child = "trap 'echo child; exit' TERM; echo ready; while :; do sleep 0.01; done"
    process = runner.started(f"trap 'wait; exit 7' TERM; ({child}) & wait")
    process.terminate()
    assert wait(process).exit_code == 7
    assert b"child" in runner.log()


def test_terminate_ends_a_plain_command_at_once(runner: Runner) -> None:
    process = runner.started("echo ready; exec sleep 1000")
    process.terminate()
    end = wait(process)
    assert (end.exit_code, end.signal) == (143, signal.SIGTERM)


def test_terminate_sends_the_stop_signal(runner: Runner) -> None:
    process = runner.started("trap 'exit 9' USR2; echo ready; while :; do sleep 0.01; done", stop_signal=signal.SIGUSR2)
    process.terminate()
    assert wait(process).exit_code == 9


def test_a_command_that_ignores_terminate_is_killed(runner: Runner) -> None:
    process = runner.started("trap 'echo no' TERM INT HUP; echo ready; while :; do sleep 0.01; done")
    process.terminate()
    until(lambda: b"no" in runner.log(), "the trap")
    assert process.poll() is None
    process.kill()
    assert wait(process).exit_code == 137


def test_signals_to_the_keeper_are_passed_on(runner: Runner) -> None:
    process = runner.started("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done")
    os.kill(process.keeper_pid, signal.SIGINT)
    assert wait(process).exit_code == 5


def test_kill_works_on_a_stopped_container_and_keeper(runner: Runner) -> None:
    process = runner.started("echo ready; exec sleep 1000")
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(process.keeper_pid, signal.SIGSTOP)
    process.kill()
    assert wait(process).exit_code == 137


def escape(nap: str) -> str:
    """Leave two daemons, in sessions of their own, one with an empty environment."""
    return f"setsid sh -c 'setsid sh -c \"echo ready; exec sleep {nap}\" & exec env -i sleep {nap}' & "


def test_daemons_die_with_the_main_process(runner: Runner) -> None:
    wait_for_it = f"while ! grep -q ready {runner.folder}/0.log; do sleep 0.01; done; exit 4"
    assert runner.shell(escape(runner.nap) + wait_for_it).exit_code == 4
    assert not with_word(runner.nap)


def test_daemons_die_when_killed(runner: Runner) -> None:
    process = runner.started(f"{escape(runner.nap)} wait; exec sleep {runner.nap}")
    until(lambda: len(with_word(runner.nap)) >= 3, "both daemons")
    process.kill()
    assert wait(process).exit_code == 137
    assert not with_word(runner.nap)


def with_word(word: str) -> list[int]:
    """Find the processes that have a word in their command line, whatever else they changed."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


MOVING = """
import os, time
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
while True:  # 32 processes, each with a new number every 2 ms
    if os.fork():
        os._exit(0)
    time.sleep(0.002)
"""


def test_descendants_that_keep_forking_do_not_get_away(runner: Runner) -> None:
    assert runner.run(sys.executable, "-I", "-S", "-c", MOVING, runner.nap).exit_code == 0
    assert not with_word(runner.nap)


def test_fifty_containers_start_and_end_quickly(runner: Runner) -> None:
    begin = time.monotonic()
    processes = [runner.start("sh", "-c", f"exit {number % 7}") for number in range(50)]
    assert time.monotonic() - begin < 5, "start must not wait for its container"
    assert [wait(process).exit_code for process in processes] == [number % 7 for number in range(50)]


@pytest.mark.needs("linux")
def test_nothing_leaks(runner: Runner) -> None:
    runner.run("true")
    runner.processes.pop().close()
    descriptors, mounts = sorted(Path("/proc/self/fd").iterdir()), Path("/proc/self/mounts").read_text()
    for argv in (("true",), ("no-such-command",), ("sh", "-c", "kill -9 $$")):
        process = start(runner.launch(*argv), runner.isolation)
        end = wait(process)
        assert end.finished_at >= end.started_at
        process.close()
    del process
    assert sorted(Path("/proc/self/fd").iterdir()) == descriptors
    assert Path("/proc/self/mounts").read_text() == mounts
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    assert {file.suffix for file in runner.folder.iterdir()} == {".log", ".message", ".json"}


def test_the_end_says_what_was_used(runner: Runner) -> None:
    end = runner.run(sys.executable, "-I", "-S", "-c", "x = b'1' * 100_000_000; sum(range(300_000))")
    assert 100_000_000 < end.max_rss_bytes < 200_000_000
    assert 0.01 < end.cpu_seconds < 10


@pytest.mark.needs("linux")
def test_secrets_are_in_no_command_line(runner: Runner) -> None:
    process = runner.started("echo ready; exec sleep 1000", environment=ENVIRONMENT | {"TOKEN": "s3cr3t-value"})
    shown = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (process.pid, process.keeper_pid)]
    assert not any(b"s3cr3t" in line for line in shown)
    assert all(b"s3cr3t" not in file.read_bytes() for file in runner.folder.iterdir())


@pytest.mark.needs("linux")
def test_orphans_in_the_container_are_reaped(runner: Runner) -> None:
    process = runner.started("(sh -c 'exit 0' &) ; (sh -c 'exit 0' &); echo ready; exec sleep 1000")

    def zombies() -> list[int]:
        below = process_tree.descendants({process.keeper_pid})
        return [pid for pid in below if b") Z " in Path(f"/proc/{pid}/stat").read_bytes()]

    until(lambda: not zombies(), "the reaping")
