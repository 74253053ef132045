"""The command line as a whole: help, version, start-up, mistakes, bugs, completion."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trainyard.contract.exit_codes import ExitCode
from trainyard.entrypoints.cli.main import app

TRAINYARD = Path(sys.executable).with_name("trainyard")
COMMANDS = ["run", "list", "describe", "logs", "wait", "stop", "suspend", "resume", "delete", "render", "lint"]
COMMANDS += ["runtimes", "verify"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_the_whole_lists_it(command: str) -> None:
    done = CliRunner().invoke(app, [command, "--help"])
    assert done.exit_code == 0
    assert f"Usage: trainyard {command}" in CliRunner().invoke(app, [command, "-h"], prog_name="trainyard").output
    assert f"\n  {command} " in CliRunner().invoke(app, ["--help"]).output


def test_help_loads_nothing_that_it_does_not_need() -> None:
    """Start-up is measured in benchmarks/cli.py; what would ruin it is named here."""
    code = (
        "import sys; sys.argv = ['trainyard', '--help']\n"
        "from trainyard.entrypoints.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([name for name in ('yaml', 'rich', 'pydantic', 'torch', 'trainyard.local', 'trainyard.controller')"
        " if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_version_is_the_distribution_s() -> None:
    assert CliRunner().invoke(app, ["--version"]).output.startswith("trainyard 0.")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [(["rnu"], "run"), (["render"], "FILE"), (["list", "-o", "xml"], "table"), (["run", "x", "--detatch"], "--detach")],
    ids=["command", "argument", "format", "option"],
)
def test_a_mistyped_command_line_ends_with_2_and_a_hint(arguments: list[str], hint: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bug_is_a_short_sentence_and_a_traceback_only_on_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("nobody expected this")

    monkeypatch.setattr("trainyard.local.store.state.StateDir.jobs", broken)
    short = CliRunner().invoke(app, ["list", "--state-dir", str(tmp_path)])
    assert short.exit_code == ExitCode.INTERNAL
    assert "trainyard met a bug: RuntimeError: nobody expected this" in short.stderr
    assert "Traceback" not in short.stderr
    full = CliRunner(env={"TRAINYARD_DEBUG": "1"}).invoke(app, ["list", "--state-dir", str(tmp_path)])
    assert "Traceback" in full.stderr


def test_an_unwritable_state_directory_is_one_sentence(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "j"},
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {"image": "python", "command": ["true"]},
        },
    }
    done = CliRunner().invoke(app, ["run", "-", "--state-dir", str(blocked / "state")], input=json.dumps(job))
    assert done.exit_code == 2
    assert str(blocked) in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    command = f"{TRAINYARD} runtimes -o yaml | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "apiVersion: trainer.kubeflow.org/v1alpha1\n"
    assert done.stderr == ""


def test_the_shell_completes_runtimes() -> None:
    environment = {
        **os.environ,
        "_TRAINYARD_COMPLETE": "complete_bash",
        "COMP_WORDS": "trainyard runtimes torch-",
        "COMP_CWORD": "2",
    }
    done = subprocess.run([TRAINYARD], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.split() == ["torch-distributed"]
