"""`trainyard verify` on folders that were really staged."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trainyard.entrypoints.cli.main import app
from trainyard.storage.registry import open_source
from trainyard.storage.stage import stage
from trainyard.storage.uri import StorageUri


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    (source / "weights.bin").write_bytes(b"w" * 5000)
    (source / "config.json").write_text("{}")
    stage(open_source(StorageUri.parse(source.as_uri()), {}), tmp_path / "staged")
    return tmp_path / "staged"


def test_a_whole_folder_is_said_to_be_whole(staged: Path) -> None:
    done = CliRunner().invoke(app, ["verify", str(staged)])
    assert done.exit_code == 0
    assert "whole: 2 files, 4.9 KiB of file://" in done.stdout
    assert CliRunner().invoke(app, ["verify", "-q", str(staged)]).stdout == ""


def test_damage_is_named_file_by_file_with_exit_code_1(staged: Path) -> None:
    (staged / "weights.bin").chmod(0o600)
    (staged / "weights.bin").write_bytes(b"w" * 4999 + b"x")
    (staged / "config.json").unlink()
    (staged / "mine.txt").write_text("")
    done = CliRunner().invoke(app, ["verify", str(staged)])
    assert done.exit_code == 1
    assert "'weights.bin': expected sha256 " in done.stdout
    assert "'config.json': missing" in done.stdout
    assert "1 files that were not staged, such as 'mine.txt'" in done.stdout
    report = json.loads(CliRunner().invoke(app, ["verify", str(staged), "-o", "json"]).stdout)["reports"][0]
    assert (report["ok"], report["missing"], report["extra"]) == (False, ["config.json"], ["mine.txt"])


def test_a_folder_that_was_not_staged_is_bad_input_and_the_others_are_still_checked(
    staged: Path, tmp_path: Path
) -> None:
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "source"), str(staged)])
    assert done.exit_code == 2
    assert "it has no manifest" in done.stderr
    assert "whole" in done.stdout
