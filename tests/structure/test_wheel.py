"""The wheel, built through the sdist and installed alone, is whole: packages, data files, commands."""

import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOREIGN_COMMANDS = {"tune", "torchrun", "mpirun", "python", "deepspeed"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    # `python -m build` makes the sdist first and the wheel from it: a file that the sdist forgot is missed here.
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
        text=True,
    )
    (built,) = out.glob("*.whl")
    return built


def test_wheel_holds_every_module_and_data_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("trainyard/")}
    packages = {name.split(".")[1] for name in PROJECT["tool"]["setuptools"]["packages"]}
    expected = {
        f"trainyard/{file.relative_to(ROOT)}"
        for package in packages
        for pattern in ("*.py", "*.yaml", "py.typed")
        for file in (ROOT / package).rglob(pattern)
    }
    assert inside == expected
    assert any(name.startswith("trainyard/runtimes/") and name.endswith(".yaml") for name in inside)


def test_wheel_installs_no_foreign_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        text = archive.read(entry_points).decode()
    commands = {line.split("=")[0].strip() for line in text.splitlines() if "=" in line}
    assert commands == set(PROJECT["project"]["scripts"])
    assert not commands & FOREIGN_COMMANDS


def test_sdist_is_light_and_holds_the_licence(wheel: Path) -> None:
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [member.name for member in archive.getmembers()]
    assert any(name.endswith("/LICENSE") for name in names)
    assert not any("/.venv/" in name or "__pycache__" in name for name in names)


def test_wheel_runs_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    # A real one, with the base dependencies only: an import that belongs to an extra fails here.
    home = tmp_path / "venv"
    venv.create(home, with_pip=True, symlinks=True)
    constraints = ROOT / "constraints" / "dev.txt"
    subprocess.run(
        [home / "bin" / "pip", "install", "--quiet", "--constraint", constraints, wheel], check=True, cwd=tmp_path
    )

    def trainyard(*arguments: str) -> str:
        command = [home / "bin" / "trainyard", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "render" in trainyard("--help")
    assert "torch-distributed" in trainyard("runtimes")
    job = tmp_path / "job.yaml"
    job.write_text(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: small}\n"
        "spec: {runtimeRef: {name: torch-distributed}, trainer: {command: [python, -V]}}\n"
    )
    assert "kind: JobSet" in trainyard("render", str(job))
