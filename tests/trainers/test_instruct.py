"""Columns to prompts and responses."""

from typing import Any

import pytest

from trainyard.contract.errors import BadDataError, ConfigError
from trainyard.trainers.torchtune.instruct import Pairs, pairs


def made(rows: list[dict[str, Any]], column_map: dict[str, str] | None = None, system: str | None = None) -> Pairs:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return pairs(rows, columns, column_map=column_map or {}, system_prompt=system)


@pytest.mark.parametrize(
    ("row", "prompt", "response"),
    [
        ({"input": "2+2?", "output": "4"}, "2+2?\n", "4"),
        ({"question": "2+2?", "answer": "4"}, "2+2?\n", "4"),
        ({"prompt": "Q: 2+2? A:", "completion": " 4"}, "Q: 2+2? A:", " 4"),
    ],
)
def test_the_shape_is_recognised_from_the_columns(row: dict[str, str], prompt: str, response: str) -> None:
    result = made([row])
    assert (result.prompts, result.responses, result.unusable) == ([prompt], [response], 0)


def test_alpaca_rows_get_the_alpaca_template() -> None:
    rows = [
        {"instruction": "Add.", "input": "2 and 2", "output": "4"},
        {"instruction": "Greet.", "input": "", "output": "Hello"},
        {"instruction": "Greet.", "input": None, "output": "Hello"},
    ]
    result = made(rows)
    assert result.shape == "alpaca"
    assert "### Instruction:\nAdd.\n\n### Input:\n2 and 2\n\n### Response:\n" in result.prompts[0]
    assert result.prompts[1] == result.prompts[2]
    assert "### Input" not in result.prompts[1]
    assert made([{"instruction": "Greet.", "output": "Hello"}]).prompts == result.prompts[1:2]


def test_braces_in_the_data_are_data() -> None:
    assert "{input} {0}" in made([{"instruction": "{input} {0}", "input": "{x}", "output": "4"}]).prompts[0]


def test_a_column_map_names_other_columns() -> None:
    row = {"q": "2+2?", "a": "4", "input": "wrong", "output": "wrong"}
    assert made([row], {"input": "q", "output": "a"}).prompts == ["2+2?\n"]


def test_a_system_prompt_comes_first() -> None:
    assert made([{"input": "2+2?", "output": "4"}], system="Be brief.").prompts == ["Be brief.\n\n2+2?\n"]


def test_unusable_rows_are_counted_and_the_first_is_said() -> None:
    rows: list[dict[str, Any]] = [
        {"input": "a", "output": "b"},
        {"input": "a", "output": None},
        {"input": 3, "output": "b"},
        {"input": "a", "output": "  "},
        {"input": "a"},
    ]
    result = made(rows)
    assert (len(result.prompts), result.unusable) == (1, 4)
    assert result.first_unusable == "row 1: column 'output': expected a text, found nothing"


def test_no_usable_row_at_all_is_an_error_with_the_columns() -> None:
    with pytest.raises(BadDataError, match="none of the 2 rows can be used; the first is row 0: .*'input', 'output'"):
        made([{"input": "a", "output": ""}, {"input": "a", "output": None}])


@pytest.mark.parametrize("column_map", [{}, {"input": "x", "output": "text"}])
def test_missing_columns_are_an_error_that_says_which_were_found(column_map: dict[str, str]) -> None:
    with pytest.raises(BadDataError) as raised:
        made([{"text": "a", "label": "b"}], column_map)
    assert "found the columns 'text', 'label'" in str(raised.value)


def test_a_map_of_an_unknown_name_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="unknown key 'inputs'"):
        made([{"a": "b"}], {"inputs": "a"})


def test_no_rows_at_all_is_an_error() -> None:
    with pytest.raises(BadDataError):
        made([])


def test_empty_files_are_said_to_be_empty() -> None:
    with pytest.raises(BadDataError, match="hold no rows"):
        pairs([], [], column_map={}, system_prompt=None)
