"""The two console commands as real processes: exit codes, termination message, log, start-up."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent
DATASET = BIN / "trainyard-dataset-initializer"
MODEL = BIN / "trainyard-model-initializer"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "config.json").write_bytes(b"{}")
    (tmp_path / "source" / "model.safetensors").write_bytes(b"w" * 1000)
    return tmp_path / "source"


class Ended:
    def __init__(self, code: int, stdout: str, stderr: str, message: Any) -> None:
        self.code, self.stdout, self.stderr, self.message = code, stdout, stderr, message


def environment(tmp_path: Path, **extra: str) -> dict[str, str]:
    return {
        "OUTPUT_PATH": str(tmp_path / "out"),
        "TERMINATION_LOG_PATH": str(tmp_path / "message"),
        **extra,
    }


def run(command: Path, tmp_path: Path, *arguments: str, **extra: str) -> Ended:
    done = subprocess.run(
        [command, *arguments],
        env=environment(tmp_path, **extra),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    message = tmp_path / "message"
    return Ended(
        done.returncode, done.stdout, done.stderr, json.loads(message.read_text()) if message.exists() else None
    )


@pytest.mark.parametrize("command", [DATASET, MODEL], ids=["dataset", "model"])
def test_staging_ends_with_0_twice(command: Path, source: Path, tmp_path: Path) -> None:
    first = run(command, tmp_path, STORAGE_URI=f"file://{source}")
    assert (first.code, first.message["code"], first.message["reason"]) == (0, 0, "Completed")
    assert "staged: 2 files, 1002 B" in first.message["message"]
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == b"w" * 1000
    second = run(command, tmp_path, STORAGE_URI=str(source))
    assert second.code == 0
    assert "already staged" in second.message["message"]
    assert "already staged" in second.stderr


@pytest.mark.parametrize(
    ("command", "extra", "code", "reason", "says"),
    [
        (DATASET, {}, 78, "Config", "STORAGE_URI: required, not set"),
        (DATASET, {"STORAGE_URI": "data"}, 78, "Config", "STORAGE_URI: expected scheme://something"),
        (DATASET, {"STORAGE_URI": "ftp://h/x"}, 78, "Config", "unknown scheme 'ftp'"),
        (DATASET, {"STORAGE_URI": "hf://squad"}, 69, "Unsupported", "it has file://"),
        (DATASET, {"STORAGE_URI": "cache://s/t"}, 69, "Unsupported", "the data cache is not supported"),
        (DATASET, {"STORAGE_URI": "/no/such/place"}, 66, "SourceNotFound", "no such file or folder"),
        (DATASET, {"STORAGE_URI": "{empty}"}, 66, "SourceNotFound", "it is empty"),
        (DATASET, {"ALLOW_PATTERNS": "*.csv"}, 66, "SourceNotFound", "it has 'config.json', 'model.safetensors'"),
        (MODEL, {"IGNORE_PATTERNS": "*.safetensors"}, 66, "SourceNotFound", "a model without weights"),
        (DATASET, {"OUTPUT_PATH": "{file}"}, 73, "CannotWrite", "it is a file, expected a folder"),
        (DATASET, {"OUTPUT_PATH": "{taken}"}, 73, "CannotWrite", "was not staged here"),
        (DATASET, {"STORAGE_URI": "{pipe}"}, 65, "BadData", "a named pipe"),
        (DATASET, {"OUTPUT_PATH": "{damaged}"}, 67, "DamagedManifest", "REPLACE=true"),
        (DATASET, {"LOG_LEVEL": "LOUD"}, 78, "Config", "LOG_LEVEL"),
    ],
)
def test_each_failure_has_its_code_reason_and_sentence(
    source: Path, tmp_path: Path, command: Path, extra: dict[str, str], code: int, reason: str, says: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "config.json").write_bytes(b"mine")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / ".trainyard-manifest.json").write_bytes(b"{")
    os.mkfifo(tmp_path / "pipe")
    if extra:
        extra = {"STORAGE_URI": str(source), **extra}
    places = {name: str(tmp_path / name) for name in ("empty", "file", "taken", "damaged", "pipe")}
    ended = run(command, tmp_path, **{name: value.format(**places) for name, value in extra.items()})
    assert (ended.code, ended.message["code"], ended.message["reason"]) == (code, code, reason)
    assert says in ended.message["message"]
    assert ended.message["message"] in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "out").exists()


def test_credentials_in_the_uri_are_not_echoed(tmp_path: Path) -> None:
    for uri in (
        "https://user:hunter2hunter2@h/x?sig=hunter2hunter2",
        "ftp://user:hunter2hunter2@h/x",
        "user:hunter2@x",
    ):
        ended = run(DATASET, tmp_path, STORAGE_URI=uri)
        assert "hunter2" not in ended.stderr + json.dumps(ended.message)


def test_json_logs_are_json(source: Path, tmp_path: Path) -> None:
    ended = run(DATASET, tmp_path, STORAGE_URI=str(source), LOG_FORMAT="json")
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [line["level"] for line in lines] == ["INFO", "INFO"]


@pytest.mark.parametrize("command", [DATASET, MODEL], ids=["dataset", "model"])
def test_help_fits_into_ten_lines_or_so_and_needs_nothing(command: Path, tmp_path: Path) -> None:
    ended = run(command, tmp_path, "--help")
    assert ended.code == 0
    assert len(ended.stdout.splitlines()) <= 11
    for name in ("STORAGE_URI", "OUTPUT_PATH", "ALLOW_PATTERNS", "IGNORE_PATTERNS", "REPLACE", "example: "):
        assert name in ended.stdout


def test_the_example_of_the_help_works(source: Path, tmp_path: Path) -> None:
    example = run(DATASET, tmp_path, "--help").stdout.partition("example: ")[2]
    example = example.replace("file:///data/squad", f"file://{source}").replace("/tmp/squad", str(tmp_path / "squad"))
    subprocess.run(
        ["sh", "-c", example], env={"PATH": f"{BIN}:{os.environ['PATH']}"}, check=True, capture_output=True, timeout=60
    )
    assert (tmp_path / "squad" / "config.json").exists()


def test_an_argument_is_a_usage_error(tmp_path: Path) -> None:
    ended = run(DATASET, tmp_path, "run")
    assert (ended.code, ended.message["reason"]) == (64, "Usage")
    assert "expected no arguments, got 'run'" in ended.stderr


def test_sigterm_stops_within_a_second_and_the_next_run_goes_on(source: Path, tmp_path: Path) -> None:
    with open(source / "large", "wb") as file:
        file.truncate(2_000_000_000)
    process = subprocess.Popen([DATASET], env=environment(tmp_path, STORAGE_URI=str(source)), stderr=subprocess.PIPE)
    work = tmp_path / "out" / ".trainyard-work"
    while not any(file.stat().st_size for file in work.glob("large.*.partial")):
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=5)
    assert process.returncode == 75
    assert json.loads((tmp_path / "message").read_text())["reason"] == "Terminated"
    assert not (tmp_path / "out" / ".trainyard-manifest.json").exists()
    (source / "large").unlink()
    assert run(DATASET, tmp_path, STORAGE_URI=str(source)).code == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        ".trainyard-manifest.json",
        "config.json",
        "model.safetensors",
    ]


def test_a_file_size_limit_is_told_as_what_cannot_be_written(source: Path, tmp_path: Path) -> None:
    (source / "large").write_bytes(b"x" * 3_000_000)
    done = subprocess.run(
        [DATASET],
        env=environment(tmp_path, STORAGE_URI=str(source)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000)),
    )
    assert done.returncode == 73, done.stderr
    assert "File too large" in done.stderr


def test_memory_stays_small_whatever_the_files_size(source: Path, tmp_path: Path) -> None:
    with open(source / "large", "wb") as file:
        file.truncate(300_000_000)
    script = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, capture_output=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, DATASET],
        env=environment(tmp_path, STORAGE_URI=str(source)),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(done.stdout) < 60_000  # KiB; the interpreter itself has 20,000


def test_finding_the_work_done_takes_little_time(source: Path, tmp_path: Path) -> None:
    run(DATASET, tmp_path, STORAGE_URI=str(source))
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run(DATASET, tmp_path, STORAGE_URI=str(source)).code == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 0.15, seconds
