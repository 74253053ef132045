"""Each way to end, as a real process: exit code, termination message, failure record, log."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

PRELUDE = """
import errno, os, sys, time
from trainyard.contract.errors import SourceNotFoundError
from trainyard.entrypoints.ending import run_to_exit
def main(environ, argv):
    {body}
run_to_exit(main)
"""


class Ended:
    def __init__(self, process: subprocess.CompletedProcess[str], message: Path, failures: Path) -> None:
        self.code = process.returncode
        self.stdout = process.stdout
        self.stderr = process.stderr
        self.message = json.loads(message.read_text()) if message.exists() else None
        self.records = [json.loads(file.read_text()) for file in failures.glob("rank-*.json")]


def program(body: str) -> list[str]:
    return [sys.executable, "-c", PRELUDE.format(body=textwrap.indent(textwrap.dedent(body), "    ").lstrip())]


def environment(tmp_path: Path, extra: dict[str, str]) -> dict[str, str]:
    (tmp_path / "failures").mkdir()
    return {
        "PATH": os.environ["PATH"],
        "TERMINATION_LOG_PATH": str(tmp_path / "message"),
        "TRAINYARD_FAILURE_DIR": str(tmp_path / "failures"),
        **extra,
    }


def run(tmp_path: Path, body: str, **extra: str) -> Ended:
    process = subprocess.run(
        program(body), env=environment(tmp_path, extra), capture_output=True, text=True, timeout=30, check=False
    )
    return Ended(process, tmp_path / "message", tmp_path / "failures")


def test_success_says_completed_and_leaves_no_failure_record(tmp_path: Path) -> None:
    ended = run(tmp_path, "return '3 files staged'")
    assert ended.code == 0
    assert ended.message == {"code": 0, "reason": "Completed", "message": "3 files staged", "retryable": False}
    assert ended.records == []


def test_own_error_gives_its_code_reason_and_one_line(tmp_path: Path) -> None:
    ended = run(tmp_path, "raise SourceNotFoundError('file:///x: no such folder')")
    assert ended.code == 66
    assert ended.message == {
        "code": 66,
        "reason": "SourceNotFound",
        "message": "file:///x: no such folder",
        "retryable": False,
    }
    assert json.loads(ended.records[0]["termination"])["code"] == 66
    assert len(ended.stderr.splitlines()) == 1
    assert "Traceback" not in ended.stderr


def test_unexpected_exception_is_a_bug_with_its_traceback(tmp_path: Path) -> None:
    ended = run(tmp_path, "{}['x']")
    assert ended.code == 70
    assert ended.message["reason"] == "Internal"
    assert "Traceback" in ended.stderr


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        ("raise OSError(errno.ENOSPC, 'No space left on device', '/data/x')", 74, "NoSpace"),
        ("raise PermissionError(errno.EACCES, 'Permission denied', '/data/x')", 73, "CannotWrite"),
        ("open('/no/such/file')", 66, "SourceNotFound"),
        ("raise BrokenPipeError(errno.EPIPE, 'Broken pipe')", 75, "Transient"),
        ("raise MemoryError", 71, "OutOfMemory"),
        ("raise SystemExit(3)", 3, "Error"),
        ("raise SystemExit", 0, "Completed"),
    ],
    ids=["no-space", "permission", "missing", "broken-socket", "memory", "system-exit", "system-exit-0"],
)
def test_foreign_exceptions_map_to_the_contract(tmp_path: Path, body: str, code: int, reason: str) -> None:
    ended = run(tmp_path, body)
    assert (ended.code, ended.message["code"], ended.message["reason"]) == (code, code, reason)
    assert "Traceback" not in ended.stderr


def test_a_missing_library_names_the_extra_that_brings_it(tmp_path: Path) -> None:
    ended = run(tmp_path, "sys.modules['torch'] = None; import torch")
    assert (ended.code, ended.message["reason"]) == (78, "LibraryMissing")
    assert "pip install 'trainyard[torchtune]'" in ended.message["message"]
    assert "Traceback" not in ended.stderr


def test_a_wrong_log_format_is_a_configuration_error(tmp_path: Path) -> None:
    ended = run(tmp_path, "pass", LOG_FORMAT="xml")
    assert ended.code == 78
    assert "LOG_FORMAT: expected text or json, got 'xml'" in ended.stderr


def test_no_secret_of_the_environment_reaches_log_or_message(tmp_path: Path) -> None:
    ended = run(tmp_path, "raise ValueError('bad token hunter2hunter2')", ACCESS_TOKEN="hunter2hunter2")
    assert "hunter2" not in ended.stderr + json.dumps(ended.message) + json.dumps(ended.records)
    assert "***" in ended.message["message"]


def test_a_closed_output_ends_silently(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        program("print('x' * 100000)"), env=environment(tmp_path, {}), stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (141, "")


def start_and_signal(tmp_path: Path, body: str, signum: int) -> tuple[Ended, float]:
    process = subprocess.Popen(
        program(f"print('ready', flush=True)\n{textwrap.dedent(body)}"),
        env=environment(tmp_path, {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    started = time.monotonic()
    process.send_signal(signum)
    stdout, stderr = process.communicate(timeout=30)
    completed = subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
    return Ended(completed, tmp_path / "message", tmp_path / "failures"), time.monotonic() - started


@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(60)",
        """
        import threading
        threading.Thread(target=time.sleep, args=(60,)).start()
        try:
            time.sleep(60)
        except Exception:
            time.sleep(60)
        """,
        """
        try:
            time.sleep(60)
        except BaseException:
            time.sleep(60)
        """,
    ],
    ids=["sleeping", "thread-left-behind", "swallowed"],
)
def test_sigterm_ends_within_a_second_as_transient(tmp_path: Path, body: str) -> None:
    ended, seconds = start_and_signal(tmp_path, body, signal.SIGTERM)
    assert (ended.code, ended.message["reason"], ended.message["retryable"]) == (75, "Terminated", True)
    assert seconds < 1.5  # One second by contract; the rest is this machine's noise.


def test_ctrl_c_ends_as_shells_expect(tmp_path: Path) -> None:
    ended, _ = start_and_signal(tmp_path, "time.sleep(60)", signal.SIGINT)
    assert (ended.code, ended.message["reason"]) == (130, "Interrupted")


def test_a_forked_childs_sigterm_does_not_end_the_parent(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
        import signal
        child = os.fork()
        if child == 0:
            time.sleep(60)
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        time.sleep(1)  # Longer than the bound after which a SIGTERM of its own would have ended it.
        """,
    )
    assert ended.code == 0
