"""Values as the SDK, people and YAML files write them."""

from pathlib import Path
from typing import Any, Literal

import pytest

from trainyard.contract.errors import ConfigError
from trainyard.trainers.torchtune.values import convert, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("3e-4", 3e-4),
        ("True", True),
        ("false", False),
        ("None", None),
        ("null", None),
        ("bf16", "bf16"),
        ("'quoted text'", "quoted text"),
        ("a text with 'quotes' in it", "a text with 'quotes' in it"),
        ("[q_proj,v_proj,output_proj]", ["q_proj", "v_proj", "output_proj"]),
        ("['q_proj', 'v_proj']", ["q_proj", "v_proj"]),
        ("{'input': 'q', 'output': 'a'}", {"input": "q", "output": "a"}),
        ("train[:5%]", "train[:5%]"),
        ("/workspace/model", "/workspace/model"),
        ("", ""),
    ],
)
def test_a_value_is_read_as_the_sdk_and_people_write_it(text: str, value: Any) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("value", "kind", "result"),
    [
        (8, int, 8),
        ("3e-4", float, 3e-4),  # What YAML 1.1 makes of it.
        (1, float, 1.0),
        (None, int | None, None),
        ("a", Path, Path("a")),
        (["a", "b"], tuple[str, ...], ("a", "b")),
        ("a", tuple[str, ...], ("a",)),
        ("cpu", Literal["auto", "cpu"], "cpu"),
    ],
)
def test_a_value_is_converted_to_the_type_of_its_field(value: Any, kind: Any, result: Any) -> None:
    assert convert(value, kind, "key", str(value)) == result


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ("two", int, "key: expected an integer, got 'two'"),
        (True, int, "key: expected an integer, got 'True'"),
        (1.5, int, "key: expected an integer, got '1.5'"),
        ("1e-4x", float, "key: expected a number, got '1e-4x'"),
        ("yes", bool, "key: expected True or False, got 'yes'"),
        ("gpu", Literal["auto", "cpu"], "key: expected one of auto, cpu, got 'gpu'"),
        (
            {"input": 1},
            dict[str, str],
            "key: expected a mapping of names such as {'input': 'question'}, got \"{'input': 1}\"",
        ),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(value: Any, kind: Any, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        convert(value, kind, "key", str(value))
    assert str(raised.value) == message


def test_a_number_that_stands_for_a_text_stays_as_it_was_written() -> None:
    assert convert(parse("007"), str, "key", "007") == "007"
