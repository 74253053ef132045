from pathlib import Path

import pytest

from trainyard.contract.environ import EnvironReader, Secret
from trainyard.contract.errors import ConfigError


def test_all_problems_come_in_one_error() -> None:
    reader = EnvironReader({"WORKERS": "two", "VERBOSE": "maybe", "MODE": "fast", "LORA": "{"})
    reader.required("STORAGE_URI")
    reader.integer("WORKERS", 1)
    reader.boolean("VERBOSE", False)
    reader.choice("MODE", "slow", ("slow", "quick"))
    reader.json_object("LORA")
    with pytest.raises(ConfigError) as caught:
        reader.finish()
    text = str(caught.value)
    assert "STORAGE_URI: required, not set" in text
    assert "WORKERS: expected an integer, got 'two'" in text
    assert "VERBOSE: expected true or false, got 'maybe'" in text
    assert "MODE: expected one of slow, quick, got 'fast'" in text
    assert "LORA: expected a JSON object" in text


def test_good_values_are_read_and_absent_ones_get_the_default() -> None:
    reader = EnvironReader({"WORKERS": "3", "VERBOSE": "Yes", "NAMES": "a, b ,,c", "LORA": '{"r": 4}', "EMPTY": ""})
    assert reader.integer("WORKERS", 1, minimum=1, maximum=4) == 3
    assert reader.integer("ABSENT", 7) == 7
    assert reader.boolean("VERBOSE", False) is True
    assert reader.words("NAMES") == ("a", "b", "c")
    assert reader.json_object("LORA") == {"r": 4}
    assert reader.text("EMPTY", "default") == "default"
    assert reader.text("ABSENT") is None
    reader.finish()


def test_an_empty_string_counts_where_the_caller_says_so() -> None:
    reader = EnvironReader({"EMPTY": ""}, empty_is_absent=False)
    assert reader.text("EMPTY", "default") == ""


@pytest.mark.parametrize(("value", "sentence"), [("0", "at least 1"), ("9", "at most 4")])
def test_integers_out_of_bounds_say_the_bounds(value: str, sentence: str) -> None:
    reader = EnvironReader({"WORKERS": value})
    reader.integer("WORKERS", 1, minimum=1, maximum=4)
    with pytest.raises(ConfigError, match=sentence):
        reader.finish()


def test_secret_comes_from_the_value_or_the_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("hf_abc\n")
    by_value, by_file = EnvironReader({"TOKEN": "hf_abc"}), EnvironReader({"TOKEN_FILE": str(file)})
    assert by_value.secret("TOKEN") == by_file.secret("TOKEN") == Secret("hf_abc")
    assert EnvironReader({}).secret("TOKEN") is None


def test_both_secret_forms_at_once_are_refused(tmp_path: Path) -> None:
    reader = EnvironReader({"TOKEN": "hf_abc", "TOKEN_FILE": str(tmp_path)})
    reader.secret("TOKEN")
    with pytest.raises(ConfigError, match="set TOKEN or TOKEN_FILE, not both"):
        reader.finish()


@pytest.mark.parametrize("kind", ["missing", "empty", "binary"])
def test_an_unusable_secret_file_is_named(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "token"
    if kind == "empty":
        file.write_text("")
    elif kind == "binary":
        file.write_bytes(b"\xff\xfe")
    reader = EnvironReader({"TOKEN_FILE": str(file)})
    reader.secret("TOKEN")
    with pytest.raises(ConfigError, match="TOKEN_FILE: .*token"):
        reader.finish()


def test_secrets_hide_in_text_and_repr() -> None:
    assert "hf_abc" not in f"{Secret('hf_abc')} {Secret('hf_abc')!r}"
    assert Secret("hf_abc").reveal() == "hf_abc"
