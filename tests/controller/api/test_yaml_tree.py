"""YAML means what it means to Kubernetes, every value knows its line, and no text can hurt."""

import datetime
import math

import pytest

from trainyard.controller.api.problem import Problem
from trainyard.controller.api.yaml_tree import find, read_trees, to_data


def read(text: str) -> tuple[list[object], list[str]]:
    problems: list[Problem] = []
    values = [to_data(root) for root in read_trees(text, "f", problems)]
    return values, [str(problem) for problem in problems]


def value(text: str) -> object:
    values, problems = read(text)
    assert problems == []
    (only,) = values
    return only


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("yes", True), ("On", True), ("y", True), ("NO", False), ("off", False), ("n", False), ("true", True),
        ("'yes'", "yes"), ("yEs", "yEs"), ("12", 12), ("-3", -3), ("+3", 3), ("0444", 0o444), ("0o444", 0o444),
        ("0x1F", 31), ("0b11", 3), ("1_000", 1000), ("08", 8.0), ("1.0", 1.0), ("1e3", 1000.0),
        (".5", 0.5), ("1.", 1.0),
        ("12:30:00", "12:30:00"), ("2026-01-02", "2026-01-02"), ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("1.2.3", "1.2.3"), ("-", None), ("=", "="), ("-x", "-x"), ("!!str 12", "12"), ("!!int 12", 12),
        ("!!float 1", 1), ("|\n  yes\n", "yes\n"), ("1__0", 10), ("0x", "0x"), ("9" * 500, "9" * 500),
    ],
)  # fmt: skip
def test_scalars_are_read_as_kubernetes_reads_them(text: str, meaning: object) -> None:
    found = value(f"a: {text}") if text != "-" else value("a: ~")
    assert found == {"a": meaning}
    assert isinstance(found, dict)
    assert type(found["a"]) is type(meaning)


def test_dates_stay_text() -> None:
    assert not isinstance(value("2026-01-02"), datetime.date)


def test_special_floats_are_floats() -> None:
    found = value("[.nan, .inf, -.inf]")
    assert isinstance(found, list)
    assert math.isnan(found[0])
    assert found[1:] == [math.inf, -math.inf]


def test_anchors_aliases_and_merges_work() -> None:
    text = "base: &b {a: 1, c: [1]}\nmore: &m {c: 3, d: 4}\none:\n  <<: *b\n  a: 2\n"
    assert value(f"{text}two:\n  a: 5\n  <<: [*m, *b]\nthree: *b\n") == {
        "base": {"a": 1, "c": [1]},
        "more": {"c": 3, "d": 4},
        "one": {"a": 2, "c": [1]},
        "two": {"a": 5, "c": 3, "d": 4},
        "three": {"a": 1, "c": [1]},
    }


def test_what_an_alias_repeats_is_not_shared() -> None:
    found = value("a: &x {l: [1]}\nb: *x\n")
    assert isinstance(found, dict)
    assert found["a"] is not found["b"]
    assert found["a"]["l"] is not found["b"]["l"]


def test_an_anchor_ends_with_its_document() -> None:
    assert read("a: &x 1\n---\nb: *x\n")[1] == ["f:3: b: the alias *x has no anchor &x before it"]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("b",), 3),
        (("b", "c"), 4),
        (("b", "c", 1), 6),
        (("b", "missing"), 3),
        (("b", "c", 9), 4),
        (("x", "y"), 2),
        ((), 2),
    ],
    ids=str,
)
def test_every_path_knows_its_line(path: tuple[str | int, ...], line: int) -> None:
    (root,) = read_trees("# comment\na: 1\nb:\n  c:\n  - 1\n  - 2\n", "f", [])
    assert find(root, path)[0] == line


def test_a_merged_field_has_the_line_where_it_stands() -> None:
    (root,) = read_trees("base: &b\n  a: 1\nuse:\n  <<: *b\n", "f", [])
    assert find(root, ("use", "a"))[0] == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3\n", "f:3: a: the key 'a' stands here and on line 1; keep one"),
        ("s:\n- x: 1\n  x: 1\n", "f:3: s[0].x: the key 'x' stands here and on line 2; keep one"),
        ("a:\n  on: 1\n", "f:2: a: expected a string as key, got on, which YAML reads as a boolean; write 'on'"),
        ("1: a\n", "f:1: expected a string as key, got 1, which YAML reads as a number; write '1'"),
        ("? [a]\n: b\n", "f:1: expected a string as key, got a list or a mapping"),
        ("a: *b\n", "f:1: a: the alias *b has no anchor &b before it"),
        ("a: &b [*b]\n", "f:1: a[0]: the alias *b stands inside its own anchor"),
        ("a: !!python/name:os.system x\n", "f:1: a: the tag !!python/name:os.system means nothing here; remove it"),
        ("a: !!int x\n", "f:1: a: the tag !!int does not fit the value 'x'"),
        ("a: !x {}\n", "f:1: a: the tag !x means nothing here; remove it"),
        ("<<: 3\n", "f:1: expected a mapping, or a list of mappings, behind the merge key <<"),
        ("a:\n\t- b\n", "f:2:1: not valid YAML: found a tab; indent with spaces"),
        ("a: 'x\n", "f:2:1: not valid YAML: found unexpected end of stream"),
        ("a: b: c\n", "f:1:5: not valid YAML: mapping values are not allowed in this context"),
        ("ä: x\nb: \x07\n", "f:2:4: not valid YAML: control characters are not allowed (U+0007)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(text: str, problem: str) -> None:
    assert any(found.startswith(problem) for found in read(text)[1])


def test_reading_goes_on_behind_a_problem() -> None:
    assert len(read("a: 1\na: 2\nb: *x\nyes: 3\n")[1]) == 3


@pytest.mark.parametrize("text", ["[" * 10**5, "{" * 10**5, "- " * 10**5, "? " * 10**5, "[{a: " * 10**4])
def test_deep_nesting_is_refused(text: str) -> None:
    assert read(text)[1][0] == "f:1: nested more than 100 levels deep"


def test_deep_nesting_by_aliases_is_refused() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 300))
    assert "nested more than 100 levels deep" in read(text)[1][0]


def test_an_alias_bomb_is_refused() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))
    assert read(text) == ([], ["f:1: aliases repeat more than 100000 values in this document"])


def test_a_long_document_without_aliases_is_accepted() -> None:
    assert len(value("- x\n" * 110_000)) == 110_000  # type: ignore[arg-type]
