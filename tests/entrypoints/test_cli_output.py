"""What the CLI prints: tables, YAML, and what a stream can show."""

import io
import json
from typing import TextIO

import pytest
import yaml

from trainyard.entrypoints.cli.table import format_fields, format_table
from trainyard.entrypoints.cli.terminal import Terminal, cut, duration
from trainyard.entrypoints.cli.yaml import to_json, to_yaml


class FakeTerminal(io.TextIOWrapper):
    """A text stream that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    def isatty(self) -> bool:
        return True


def terminal(
    width: int = 80, *, stream: TextIO | None = None, interactive: bool = True, color: bool = False
) -> Terminal:
    return Terminal(stream=stream or io.StringIO(), interactive=interactive, color=color, unicode=True, width=width)


@pytest.mark.parametrize(
    ("environ", "color", "interactive"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_no_color_and_dumb_terminals_are_respected(environ: dict[str, str], color: bool, interactive: bool) -> None:
    found = Terminal.of(FakeTerminal(), environ)
    assert (found.color, found.interactive) == (color, interactive)
    assert ("\x1b" in found.paint("x", "red")) is color


def test_a_pipe_gets_no_control_codes_unless_forced() -> None:
    assert not Terminal.of(io.StringIO(), {"TERM": "xterm"}).color
    assert Terminal.of(io.StringIO(), {"TERM": "xterm", "FORCE_COLOR": "1"}).color


@pytest.mark.parametrize(
    ("encoding", "environ", "unicode"),
    [
        ("utf-8", {}, True),
        ("utf-8", {"LANG": "de_DE.UTF-8"}, True),
        ("utf-8", {"LC_ALL": "C"}, False),
        # What Python does to LANG=C on its own.
        ("utf-8", {"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ("utf-8", {"LC_CTYPE": "C.UTF-8"}, True),
        ("latin-1", {"LANG": "de_DE"}, False),
        ("ascii", {}, False),
    ],
)
def test_ascii_locales_get_ascii(encoding: str, environ: dict[str, str], unicode: bool) -> None:
    assert Terminal.of(FakeTerminal(encoding), environ).unicode is unicode


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.9, "0s"), (59, "59s"), (65, "1m05s"), (7380, "2h03m"), (273600, "3d04h")]
)
def test_durations_are_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_cut_never_exceeds_the_width() -> None:
    assert [cut("abcdef", width) for width in (6, 5, 3, 2, 0)] == ["abcdef", "ab...", "...", "..", ""]


def test_table_cuts_the_last_column_on_a_terminal_only() -> None:
    rows = [("a", "x" * 100), ("longer", "y")]
    on_terminal = format_table(("NAME", "MESSAGE"), rows, terminal(40)).splitlines()
    assert max(map(len, on_terminal)) == 40
    in_pipe = format_table(("NAME", "MESSAGE"), rows, terminal(40, interactive=False)).splitlines()
    assert in_pipe == ["NAME    MESSAGE", f"a       {'x' * 100}", "longer  y"]


def test_table_columns_stay_aligned_when_painted() -> None:
    text = format_table(
        ("STATE", "N"), [("Failed", "1"), ("Running", "2")], terminal(color=True), styles={"Failed": "red"}
    )
    assert "\x1b[31mFailed \x1b[0m  1" in text


def test_fields_leave_out_what_is_empty_and_indent_further_lines() -> None:
    text = format_fields([("Name", "a"), ("Nothing", ""), ("Message", "one\ntwo")], terminal(), indent=2)
    assert text == "  Name:     a\n  Message:  one\n            two"


def test_yaml_quotes_what_other_readers_would_take_for_numbers_or_booleans() -> None:
    words = [
        "1e3",
        "y",
        "No",
        "on",
        "0x1f",
        "0o17",
        "1_000",
        "12:30",
        "2026-11-21",
        "~",
        "null",
        ".inf",
        "-.5",
        "+1",
        "",
    ]
    text = to_yaml([words])
    assert yaml.safe_load(text) == words
    assert all(line.startswith(("- '", '- "')) for line in text.splitlines())
    assert to_yaml([["node-0", "1.2.3.4.local", "bf16", "é"]]) == "- node-0\n- 1.2.3.4.local\n- bf16\n- é\n"


def test_yaml_keeps_order_writes_blocks_and_no_anchors() -> None:
    shared = {"b": 1, "a": "one\ntwo\n"}
    text = to_yaml([{"first": shared, "second": shared}, {}])
    assert text == "first:\n  b: 1\n  a: |\n    one\n    two\nsecond:\n  b: 1\n  a: |\n    one\n    two\n--- {}\n"


def test_json_is_a_kubernetes_list() -> None:
    assert json.loads(to_json([{"kind": "A"}])) == {"apiVersion": "v1", "kind": "List", "items": [{"kind": "A"}]}
    assert json.loads(to_json([{"kind": "A"}], always_list=False)) == {"kind": "A"}
