"""Data files of every format and layout to rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainyard.contract.errors import BadDataError, ConfigError, SourceNotFoundError, TrainyardError, UnsupportedError
from trainyard.trainers.torchtune.rows import Table, read

ROWS = [{"input": f"q{number}", "output": f"a{number}"} for number in range(10)]
PARQUET = [pytest.param(name, marks=pytest.mark.trainer) for name in ("data.parquet", "deep/er/train.parquet")]
"""pyarrow comes with the trainer, not with the environment of the quick tests."""
Write = Callable[[Path, list[dict[str, Any]]], Path]


def read_all(folder: Path, *files: str, source: str | None = None, split: str = "train") -> Table:
    return read(folder, files, source, split)


@pytest.mark.parametrize("name", ["data.jsonl", "data.json", "data.ndjson", "deep/er/train.jsonl", *PARQUET])
def test_a_file_is_found_wherever_it_lies_below_the_folder(tmp_path: Path, write_rows: Write, name: str) -> None:
    file = write_rows(tmp_path / name, ROWS)
    table = read_all(tmp_path)
    assert table.rows == ROWS
    assert table.columns == ("input", "output")
    assert table.files == (file,)


def test_json_may_be_one_array(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('\n[{"a": "1"},\n {"a": "2", "b": "3"}]')
    table = read_all(tmp_path)
    assert table.rows == [{"a": "1"}, {"a": "2", "b": "3"}]
    assert table.columns == ("a", "b")


def test_a_line_separator_inside_a_json_string_ends_no_line(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"a": "x\u2028y"}\r\n{"a": "z"}\n', encoding="utf-8")
    assert read_all(tmp_path).rows == [{"a": "x\u2028y"}, {"a": "z"}]


def test_files_are_read_in_the_order_of_their_names(tmp_path: Path, write_rows: Write) -> None:
    for number in (2, 0, 1):
        write_rows(tmp_path / f"train-0000{number}-of-00003.jsonl", ROWS[number : number + 1])
    assert read_all(tmp_path).rows == ROWS[:3]


def test_the_dataset_initializers_manifest_and_dataset_info_are_no_data(tmp_path: Path, write_rows: Write) -> None:
    write_rows(tmp_path / "data.jsonl", ROWS)
    (tmp_path / ".trainyard-manifest.json").write_text('{"files": []}')
    (tmp_path / "dataset_info.json").write_text("{}")
    (tmp_path / "README.md").write_text("about")
    assert read_all(tmp_path).rows == ROWS


def test_only_the_asked_split_is_read(tmp_path: Path, write_rows: Write) -> None:
    write_rows(tmp_path / "data" / "train-00000.jsonl", ROWS[:6])
    write_rows(tmp_path / "data" / "test-00000.jsonl", ROWS[6:])
    assert read_all(tmp_path).rows == ROWS[:6]
    assert read_all(tmp_path, split="test").rows == ROWS[6:]
    with pytest.raises(SourceNotFoundError, match=r"belongs to 'validation'; found \['test', 'train'\]"):
        read_all(tmp_path, split="validation")


@pytest.mark.parametrize(
    ("split", "rows"),
    [("train[:3]", ROWS[:3]), ("train[8:]", ROWS[8:]), ("train[20%:50%]", ROWS[2:5]), ("train[:100]", ROWS)],
)
def test_a_range_of_the_split_is_taken(tmp_path: Path, write_rows: Write, split: str, rows: list[Any]) -> None:
    write_rows(tmp_path / "data.jsonl", ROWS)
    assert read_all(tmp_path, split=split).rows == rows


def test_named_files_are_read_and_no_others(tmp_path: Path, write_rows: Write) -> None:
    write_rows(tmp_path / "a.jsonl", ROWS[:2])
    write_rows(tmp_path / "b.jsonl", ROWS[2:4])
    write_rows(tmp_path / "c.jsonl", ROWS[4:])
    assert read_all(tmp_path, "b.jsonl").rows == ROWS[2:4]
    assert read_all(tmp_path, "[ab].jsonl").rows == ROWS[:4]
    assert read_all(Path("/nowhere"), str(tmp_path / "a.jsonl")).rows == ROWS[:2]
    with pytest.raises(SourceNotFoundError, match=r"dataset.data_files: .*d\.jsonl"):
        read_all(tmp_path, "d.jsonl")


@pytest.mark.trainer
def test_the_source_chooses_the_format(tmp_path: Path, write_rows: Write) -> None:
    write_rows(tmp_path / "a.jsonl", ROWS[:2])
    write_rows(tmp_path / "b.parquet", ROWS[2:])
    assert read_all(tmp_path, source="parquet").rows == ROWS[2:]
    assert read_all(tmp_path, source="json").rows == ROWS[:2]


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("a.jsonl", b'{"a": "1"}\n{"a": \n', "a.jsonl:2: not valid JSON"),
        ("a.jsonl", b'{"a": "1"}\n[1]\n', "a.jsonl:2: expected an object, found list"),
        ("a.json", b"[1]", "a.json: item 0: expected an object, found int"),
        ("a.json", b"[{]", "a.json: not valid JSON"),
        ("a.jsonl", b'{"a": "\xff"}', "a.jsonl: not UTF-8 at byte 7"),
        pytest.param("a.parquet", b"PAR1 not really", "not a parquet file that can be read", marks=pytest.mark.trainer),
    ],
)
def test_a_corrupt_file_is_named_with_the_line(tmp_path: Path, name: str, content: bytes, part: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadDataError) as raised:
        read_all(tmp_path)
    assert part in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("source", "split", "error", "part"),
    [
        ("tatsu-lab/alpaca", "train", UnsupportedError, "expected json or parquet"),
        (None, "train[5%", ConfigError, "dataset.split: expected a name such as train"),
        (None, "train", SourceNotFoundError, "no file in it ends in"),
    ],
)
def test_a_data_set_that_is_not_there_is_refused(
    tmp_path: Path, source: str | None, split: str, error: type[TrainyardError], part: str
) -> None:
    with pytest.raises(error, match=part):
        read_all(tmp_path, source=source, split=split)
    with pytest.raises(TrainyardError):
        read_all(tmp_path / "missing", source=source, split=split)
