"""Several initializers on one folder at once: one works, the others wait and find the work done."""

import subprocess
import sys
import textwrap
from pathlib import Path

SCRIPT = """
    import logging, sys
    from pathlib import Path
    from trainyard.storage.local_source import LocalSource
    from trainyard.storage.stage import stage
    logging.basicConfig(level=logging.INFO)
    print("ready", flush=True)
    sys.stdin.read()
    report = stage(LocalSource(Path(sys.argv[1])), Path(sys.argv[2]))
    print(report.staged_files, report.was_complete)
"""


def together(count: int, source: Path, target: Path) -> list[tuple[int, str, str]]:
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(source), str(target)]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(count)]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None
        return [(process.wait(60), *process.communicate()) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_one_stages_and_the_others_find_it_done(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for index in range(300):
        (tmp_path / "source" / str(index)).write_bytes(b"x" * 50_000)
    ended = together(4, tmp_path / "source", tmp_path / "out")
    assert [code for code, _, _ in ended] == [0] * 4, ended
    assert sorted(stdout for _, stdout, _ in ended) == ["0 True\n"] * 3 + ["300 False\n"]
    assert any("waiting for the initializer that is staging" in stderr for _, _, stderr in ended)
    assert not (tmp_path / "out" / ".trainyard-work").exists()


def test_two_sources_at_once_are_not_mixed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    (first,) = together(1, tmp_path / "one", tmp_path / "out")
    (second,) = together(1, tmp_path / "two", tmp_path / "out")
    assert first[0] == 0
    assert "CannotWriteError" in second[2]
    assert (tmp_path / "out" / "a").read_text() == "one"
