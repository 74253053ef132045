import json
from pathlib import Path

import pytest

from trainyard.contract import env, failure, termination
from trainyard.contract.errors import SourceNotFoundError, TransientError
from trainyard.contract.termination import MAX_BYTES, TerminationMessage


def test_message_of_our_error_round_trips() -> None:
    message = TerminationMessage.from_error(SourceNotFoundError("file:///data: no such folder"))
    assert json.loads(message.to_json()) == {
        "code": 66,
        "reason": "SourceNotFound",
        "message": "file:///data: no such folder",
        "retryable": False,
    }
    assert TerminationMessage.parse(message.to_json()) == message


def test_message_of_a_foreign_error_is_internal() -> None:
    message = TerminationMessage.from_error(KeyError("x"))
    assert (message.code, message.reason, message.retryable) == (70, "Internal", False)
    assert message.message == "KeyError: 'x'"


@pytest.mark.parametrize("text", ["a" * 20_000, "é" * 10_000, "\U0001f600" * 5_000, '"\\' * 9_000])
def test_long_messages_fit_and_stay_json(text: str) -> None:
    written = TerminationMessage(code=70, reason="Internal", message=text, retryable=False).to_json()
    assert len(written.encode()) <= MAX_BYTES
    assert json.loads(written)["code"] == 70


def test_written_where_the_environment_says(tmp_path: Path) -> None:
    file = tmp_path / "message"
    termination.write(TerminationMessage.from_error(TransientError("cut")), {env.TERMINATION_LOG_PATH: str(file)})
    parsed = TerminationMessage.parse(file.read_text())
    assert parsed is not None
    assert parsed.retryable


def test_an_unwritable_place_is_no_error(tmp_path: Path) -> None:
    message = TerminationMessage.from_error(TransientError("cut"))
    termination.write(message, {env.TERMINATION_LOG_PATH: str(tmp_path / "absent" / "message")})


@pytest.mark.parametrize("text", ["", "Traceback", "[]", '{"code": "66"}', "null"])
def test_text_that_is_not_ours_parses_to_nothing(text: str) -> None:
    assert TerminationMessage.parse(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "https://ada:hunter2secret@host/x",
        "GET /x?X-Amz-Signature=hunter2secret&a=1",
        "Authorization: Bearer hunter2secret",
        "https://host/x?sig=hunter2secret",
        "password is hunter2secret",
    ],
)
def test_secrets_are_taken_out(text: str) -> None:
    scrubbed = termination.scrub(text, termination.secrets_of({"DB_PASSWORD": "hunter2secret", "NAME": "host"}))
    assert "hunter2secret" not in scrubbed
    assert "***" in scrubbed


def test_plain_text_stays_as_it_is() -> None:
    assert termination.scrub("download s3://bucket/key: got 3 bytes") == "download s3://bucket/key: got 3 bytes"


def test_first_permanent_failure_is_blamed_before_a_lost_peer(tmp_path: Path) -> None:
    environ = {env.FAILURE_DIR: str(tmp_path)}
    lost = TerminationMessage.from_error(TransientError("connection closed by peer"))
    cause = TerminationMessage.from_error(SourceNotFoundError("no such file"))
    failure.record(lost, {**environ, "RANK": "0"})
    failure.record(cause, {**environ, "RANK": "3"})
    blamed = failure.first(tmp_path)
    assert blamed is not None
    assert (blamed.rank, blamed.termination) == (3, cause)


def test_without_a_launcher_no_record_is_left() -> None:
    failure.record(TerminationMessage.from_error(TransientError("x")), {})


def test_broken_records_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "rank-0-1.json").write_text("{")
    assert failure.first(tmp_path) is None
