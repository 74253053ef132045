"""The shim of mpirun before a real Open MPI."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainyard.contract.errors import ConfigError
from trainyard.local.pods.shims import write_shims
from trainyard.trainers.mpirun import find_real

BIN = Path(sys.executable).parent


def environ(tmp_path: Path) -> dict[str, str]:
    write_shims(tmp_path / "shims")
    return {
        "PATH": f"{tmp_path / 'shims'}:{BIN}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERMINATION_LOG_PATH": str(tmp_path / "message"),
        # Root in a test machine, with fewer cores than ranks.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
    }


def start(tmp_path: Path, program: str) -> "subprocess.Popen[str]":
    script = tmp_path / "rank.py"
    script.write_text(f"import os, sys, time\nrank = int(os.environ['OMPI_COMM_WORLD_RANK'])\n{program}\n")
    return subprocess.Popen(
        ["mpirun", "-np", "2", "--oversubscribe", sys.executable, script],
        env=environ(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.mpi
def test_a_good_run_is_untouched(tmp_path: Path) -> None:
    process = start(tmp_path, "print('rank', rank, flush=True)")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert sorted(output.split("\n"))[-2:] == ["rank 0", "rank 1"]


@pytest.mark.mpi
def test_the_failed_rank_s_code_comes_out(tmp_path: Path) -> None:
    process = start(tmp_path, "sys.exit(66) if rank else time.sleep(60)")
    process.communicate(timeout=60)
    assert process.returncode == 66


@pytest.mark.mpi
def test_the_failed_rank_s_own_reason_comes_out(tmp_path: Path) -> None:
    program = (
        "from trainyard.entrypoints.ending import run_to_exit\n"
        "from trainyard.contract.errors import SourceNotFoundError\n"
        "def main(environ, argv):\n"
        "    if rank:\n"
        "        raise SourceNotFoundError('no such file: x')\n"
        "    time.sleep(60)\n"
        "run_to_exit(main)"
    )
    process = start(tmp_path, program)
    process.communicate(timeout=60)
    assert process.returncode == 66
    message = json.loads((tmp_path / "message").read_text())
    assert message["reason"] == "SourceNotFound"
    assert message["message"].startswith("rank 1 on ")


@pytest.mark.mpi
def test_sigterm_ends_all_ranks_and_is_told(tmp_path: Path) -> None:
    process = start(tmp_path, f"open(r'{tmp_path}/up' + str(rank), 'w').close(); time.sleep(60)")
    deadline = time.monotonic() + 30
    while not all((tmp_path / f"up{rank}").exists() for rank in range(2)) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143


def test_without_an_mpirun_the_error_says_so(tmp_path: Path) -> None:
    write_shims(tmp_path / "shims")
    with pytest.raises(ConfigError, match="no mpirun on PATH"):
        find_real({"PATH": f"{tmp_path / 'shims'}:{tmp_path}"})
