"""The command torchrun: whatever happened, the code and the reason of the rank that failed first come out."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.trainer

SCRIPT = """
import os, signal, sys, time
import torch, torch.distributed as dist

mode, rank = sys.argv[1], int(os.environ["RANK"])
dist.init_process_group("gloo")
ones = torch.ones(1)
dist.all_reduce(ones)
open(f"{sys.argv[2]}/ready-{rank}", "w").close()
if rank == 1:
    if mode == "exit":
        sys.exit(66)
    if mode == "raise":
        raise ValueError("a bad thing")
    if mode == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
if mode == "wait":
    time.sleep(120)
dist.all_reduce(ones)
assert ones.item() == 4
dist.destroy_process_group()
"""
RECORDED = """
import os
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    if os.environ["RANK"] == "1":
        raise ValueError("a bad thing")

main()
"""
TYPED = """
import os
from trainyard.contract.errors import BadDataError
from trainyard.entrypoints.ending import run_to_exit

def work(environ, argv):
    if environ["RANK"] == "1":
        raise BadDataError("row 7 of train.jsonl is no row")

run_to_exit(work)
"""


def start(folder: Path, program: str, *arguments: str) -> subprocess.Popen[str]:
    script = folder / "script.py"
    script.write_text(program)
    command = [
        sys.executable,
        "-m",
        "trainyard.entrypoints.torchrun",
        "--standalone",
        "--nproc-per-node=2",
        str(script),
    ]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "TERMINATION_LOG_PATH": str(folder / "termination")}
    return subprocess.Popen([*command, *arguments], env=environ, stderr=subprocess.PIPE, text=True)


def end(folder: Path, process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    process.communicate(timeout=90)
    return process.returncode, json.loads((folder / "termination").read_text())


@pytest.mark.parametrize(
    ("mode", "code", "part"),
    [
        ("end", 0, "done"),
        ("exit", 66, "rank 1 on "),
        ("kill", 137, "rank 1 on "),
        ("crash", 139, "killed by signal 11"),
    ],
)
def test_the_code_of_the_rank_that_failed_first_comes_out(tmp_path: Path, mode: str, code: int, part: str) -> None:
    found, termination = end(tmp_path, start(tmp_path, SCRIPT, mode, str(tmp_path)))
    assert (found, termination["code"]) == (code, code)
    assert part in termination["message"]


def test_an_exception_is_a_failure_of_a_rank(tmp_path: Path) -> None:
    found, termination = end(tmp_path, start(tmp_path, SCRIPT, "raise", str(tmp_path)))
    # torch sometimes aborts a process that ends with an exception while its gloo group lives; either code is its own.
    assert found in (1, 128 + signal.SIGABRT)
    assert termination["code"] == found
    assert f" ended with code {found}" in termination["message"]


def test_what_a_recorded_script_says_comes_out(tmp_path: Path) -> None:
    code, termination = end(tmp_path, start(tmp_path, RECORDED))
    assert code == 1
    assert "rank 1 on " in termination["message"]
    assert termination["message"].endswith("ValueError: a bad thing")


def test_the_class_and_sentence_of_a_typed_failure_come_out(tmp_path: Path) -> None:
    code, termination = end(tmp_path, start(tmp_path, TYPED))
    assert code == 65
    assert termination["reason"] == "BadData"
    assert termination["message"].endswith("row 7 of train.jsonl is no row")
    assert not termination["retryable"]


def test_sigterm_ends_all_ranks_and_is_said(tmp_path: Path) -> None:
    process = start(tmp_path, SCRIPT, "wait", str(tmp_path))
    deadline = time.monotonic() + 60
    while not ((tmp_path / "ready-0").exists() and (tmp_path / "ready-1").exists()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    code, termination = end(tmp_path, process)
    assert code == 143
    assert termination["reason"] == "Terminated"
