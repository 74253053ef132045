"""The programs that come first on PATH, really run."""

import subprocess
import sys
from pathlib import Path

import pytest

from trainyard.local.pods.shims import LAUNCHERS, shim_scripts, write_shims


@pytest.fixture(scope="module")
def shims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("with blank") / "shims"
    write_shims(folder)
    return folder


@pytest.mark.parametrize("name", ["python", "python3"])
def test_python_is_this_interpreter(shims: Path, name: str) -> None:
    code = "import sys; print(sys.executable, sys.argv[1:])"
    done = subprocess.run([shims / name, "-c", code, "a b", ""], capture_output=True, text=True, check=True)
    assert done.stdout == f"{sys.executable} ['a b', '']\n"


def test_our_commands_need_no_activated_environment(shims: Path) -> None:
    done = subprocess.run(
        [shims / "trainyard", "--help"], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "trainyard" in done.stdout


def test_a_launcher_without_its_module_gets_no_shim() -> None:
    root = Path(__file__).resolve().parents[3]
    there = {
        name for name, module in LAUNCHERS.items() if (root / "entrypoints" / f"{module.split('.')[-1]}.py").exists()
    }
    assert {name for name in shim_scripts() if name in LAUNCHERS} == there


def test_a_second_write_changes_nothing(shims: Path) -> None:
    before = {file.name: file.stat().st_ino for file in shims.iterdir()}
    write_shims(shims)
    assert {file.name: file.stat().st_ino for file in shims.iterdir()} == before
