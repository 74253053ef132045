"""The README's first ten minutes, run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.trainer

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def section() -> str:
    page = (ROOT / "README.md").read_text()
    return page[page.index("## The first ten minutes") : page.index("## What works today")]


def run_in_root(command: list[str], state_home: Path) -> str:
    environ = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "XDG_STATE_HOME": str(state_home)}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_commands_run_in_their_order(tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", section(), re.MULTILINE | re.DOTALL)
    script = "".join(blocks).replace("source .venv/bin/activate\n", "")
    printed = run_in_root(["bash", "-eu", "-c", script], tmp_path)
    # The ranks share a log, and may write into each other's lines.
    for rank in range(4):
        assert f"rank {rank} of 4" in printed
    assert printed.count("the ranks add up to 6") >= 4
    assert "all-reduce deleted" in printed


def test_the_python_lines_run(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", section(), re.MULTILINE | re.DOTALL)
    printed = run_in_root([sys.executable, "-c", code], tmp_path)
    assert printed.splitlines()[-1].startswith("0 ")
