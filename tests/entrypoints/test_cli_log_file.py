"""Log files: the last lines, following, a file begun anew, several steps in the order of their times."""

from pathlib import Path

import pytest

from trainyard.entrypoints.cli.log_file import LogTail, clean, interleave, read_lines


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("10 %\r20 %\r30 %", "30 %"),
        ("windows\r", "windows"),
        ("\x1b]0;title\x07text\x07", "text"),
        ("tab\there", "tab\there"),
        ("\x9b31mred", "31mred"),
    ],
)
def test_lines_are_shown_without_control_codes(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_the_last_lines_of_a_large_file_are_read(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"line {number}\n" for number in range(50_000)))
    assert read_lines(log, last=2) == ["line 49998", "line 49999"]
    assert len(read_lines(log)) == 50_000
    assert len(read_lines(log, last=100_000)) == 50_000
    assert read_lines(log, last=0) == []


def test_an_unfinished_last_line_counts(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\ntwo")
    assert read_lines(log) == ["one", "two"]
    assert read_lines(log, last=1) == ["two"]
    assert read_lines(tmp_path / "absent.log") == []


def test_following_gives_whole_lines_once(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    tail = LogTail(log)
    assert tail.read() == []
    with log.open("w") as file:
        for text, lines in (("one\ntw", ["one"]), ("o\n", ["two"]), ("thr", [])):
            file.write(text)
            file.flush()
            assert tail.read() == lines
    assert tail.close() == ["thr"]


def test_a_flood_is_read_in_bounded_portions(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    line = "x" * 99
    log.write_text(f"{line}\n" * 200_000)
    tail = LogTail(log)
    portions = [tail.read()]
    while tail.has_more:
        portions.append(tail.read())
    assert sum(map(len, portions)) == 200_000
    assert max(map(len, portions)) < 60_000
    assert tail.close() == []


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with log.open("wb") as file:
        file.truncate(80 << 20)
    tail = LogTail(log)
    longest = 0
    while (lines := tail.read()) or tail.has_more:
        longest = max([longest, *map(len, lines)])
    assert 0 < longest < 40 << 20
    assert tail.close()


def test_following_goes_on_in_the_file_of_the_next_attempt(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("first\n")
    tail = LogTail(log)
    assert tail.read() == ["first"]
    with log.open("a") as file:
        file.write("killed in the mid")
    log.rename(tmp_path / "a.previous.log")
    log.write_text("second\n")
    assert tail.read() == ["killed in the mid", "second"]
    tail.close()


def test_following_can_begin_with_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\nthree\nfo")
    tail = LogTail(log, last=1)
    assert tail.read() == ["three"]
    with log.open("a") as file:
        file.write("ur\n")
    assert tail.read() == ["four"]
    tail.close()


def test_steps_are_merged_by_time_and_lines_without_one_stay_with_theirs() -> None:
    one = ["starting", "2026-11-21T10:00:01Z a", "Traceback", "2026-11-21T10:00:09Z b"]
    two = ["2026-11-21T10:00:05Z c"]
    three = ["no time"]
    merged = [line for _, line in interleave([("x", one), ("y", two), ("z", three)])]
    assert merged == ["no time", "starting", "2026-11-21T10:00:01Z a", "Traceback", two[0], "2026-11-21T10:00:09Z b"]
