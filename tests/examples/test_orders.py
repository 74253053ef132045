"""The example's data is what its seeded script makes, and its questions are held out."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest

ORDERS = Path(__file__).parents[2] / "examples" / "orders"
BINARY_LIMIT_BYTES = 10_000_000


def rows(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_data_is_what_the_seeded_script_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("orders.py", "make_data.py"):
        shutil.copy(ORDERS / name, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        runpy.run_path(str(tmp_path / "make_data.py"), run_name="__main__")
    finally:
        sys.modules.pop("orders", None)
    for name in ("dataset/train.jsonl", "questions.jsonl"):
        assert (tmp_path / name).read_bytes() == (ORDERS / name).read_bytes()


def test_questions_are_held_out_and_enough() -> None:
    train, questions = rows(ORDERS / "dataset" / "train.jsonl"), rows(ORDERS / "questions.jsonl")
    assert len(train) >= 500
    assert len(questions) == 50
    assert not {row["input"] for row in train} & {row["input"] for row in questions}
    assert not {row["output"] for row in train} & {row["output"] for row in questions}


def test_every_answer_follows_from_its_question() -> None:
    for row in rows(ORDERS / "questions.jsonl"):
        for value in json.loads(row["output"]).values():
            assert str(value) in row["input"]


def test_binary_files_stay_small() -> None:
    assert sum(file.stat().st_size for file in ORDERS.rglob("*") if file.is_file()) < BINARY_LIMIT_BYTES
