"""Quantities mean what Kubernetes says they mean."""

import pytest

from trainyard.controller.api.quantity import parse_quantity


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1", "1000m"),
        ("1", 1),
        ("1", 1.0),
        ("0.5", "500m"),
        (".5", 0.5),
        ("1k", "1000"),
        ("1Ki", "1024"),
        ("1Gi", 1073741824),
        ("1e3", "1k"),
        ("1E3", "1k"),
        ("1.5e-3", "1500u"),
        ("+2", "2"),
        ("0.1Ki", "102.4"),
        ("1E", "1000P"),
        (1e22 / 1e20, "100"),
    ],
    ids=str,
)
def test_equal_amounts_are_equal_however_written(text: str | int | float, same: str | int | float) -> None:
    assert parse_quantity(text) == parse_quantity(same)
    assert hash(parse_quantity(text)) == hash(parse_quantity(same))


@pytest.mark.parametrize(
    "text", ["", "two", "1 Gi", "1gi", "--1", "1e", "1ee3", "1.2.3", ".", "0x10", "1Gib", "9e99", "1" * 100, "nan"]
)
def test_nonsense_is_refused_with_what_was_found(text: str) -> None:
    with pytest.raises(ValueError, match="expected a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [True, None, float("inf"), float("nan"), [1]], ids=str)
def test_values_that_are_no_amounts_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected a quantity"):
        parse_quantity(value)  # type: ignore[arg-type]


def test_order_is_by_amount() -> None:
    assert parse_quantity("900m") < parse_quantity("1") < parse_quantity("1Ki") < parse_quantity("2k")


@pytest.mark.parametrize(
    ("text", "whole"), [("500m", 1), ("2500m", 3), ("2", 2), ("1n", 1), ("-500m", 0), ("1.5Ki", 1536)]
)
def test_integers_round_up(text: str, whole: int) -> None:
    assert parse_quantity(text).as_int_ceil() == whole


def test_finer_than_a_nano_rounds_up() -> None:
    assert parse_quantity("0.0000000001").nanos == 1


@pytest.mark.parametrize(
    ("value", "canonical"),
    [("1000m", "1"), (1.0, "1"), (0.5, "500m"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("0", "0"), ("1500", "1500"),
     ("12e6", "12M"), ("0Gi", "0")],
    ids=str,
)  # fmt: skip
def test_canonical_form_is_the_api_servers(value: str | float, canonical: str) -> None:
    assert parse_quantity(value).canonical() == canonical
    assert parse_quantity(canonical) == parse_quantity(value)
