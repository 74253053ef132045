"""What a plain (unquoted) YAML scalar means to Kubernetes.

Kubernetes reads YAML 1.1 words for booleans (`yes`, `on`, `y`), octal integers (`0444`), no sexagesimal numbers, and
leaves dates as text. PyYAML's own rules differ in the last two and in `y`, `1e3` and `0o17`, hence this table.
Source: the resolver of the YAML library inside sigs.k8s.io/yaml, which kubectl and the API server use.
"""

import re
from typing import Final

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_INFINITY: Final = re.compile(r"[+-]?\.(?:inf|Inf|INF)")
_NAN: Final = (".nan", ".NaN", ".NAN")
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9_]*)")
_OTHER_BASE: Final = re.compile(r"(?P<sign>[+-]?)0(?:(?P<base>[xXbBoO])(?P<digits>[0-9a-fA-F_]+)|(?P<octal>[0-7_]+))")
_FLOAT: Final = re.compile(r"[+-]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][+-]?[0-9]+)?")
_BASES: Final = {"x": 16, "b": 2, "o": 8}
_LONGEST_NUMBER: Final = 400
"""Longer digit strings stay text: no field takes such a number, and reading one takes long."""


def plain_value(text: str) -> str | int | float | bool | None:
    """Give the value of an unquoted scalar without a tag."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return int(text.replace("_", ""))
    if match := _OTHER_BASE.fullmatch(text):
        base = _BASES[match["base"].lower()] if match["base"] else 8
        try:
            return int(match["sign"] + (match["digits"] or match["octal"]).replace("_", ""), base)
        except ValueError:
            return text
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITY.fullmatch(text):
        return float(text.replace(".", ""))
    return float("nan") if text in _NAN else text
