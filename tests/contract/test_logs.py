import json
import logging
from collections.abc import Iterator

import pytest

from trainyard.contract import logs
from trainyard.contract.errors import ConfigError


@pytest.fixture(autouse=True)
def restored_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_text_names_level_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure({})
    logging.getLogger("x").info("staged files=%d", 3)
    assert capsys.readouterr().err.endswith("Z INFO staged files=3\n")


def test_json_lines_carry_the_rank(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure({"LOG_FORMAT": "json", "RANK": "1", "WORLD_SIZE": "2"})
    logging.getLogger("x").warning("slow")
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["message"], line["rank"], line["logger"]) == ("WARNING", "slow", "1", "x")


def test_secrets_never_reach_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure({"ACCESS_TOKEN": "hf_hunter2secret"})
    try:
        raise ValueError("token hf_hunter2secret refused")
    except ValueError:
        logging.getLogger("x").exception("with hf_hunter2secret")
    assert "hunter2" not in capsys.readouterr().err


@pytest.mark.parametrize(("name", "value"), [("LOG_FORMAT", "xml"), ("LOG_LEVEL", "LOUD")])
def test_unknown_words_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: expected .* got '{value}'"):
        logs.configure({name: value})
