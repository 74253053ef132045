"""Text and YAML values to the types of the configuration's fields.

The SDK writes Python: `True`, `{'input': 'q'}`, `[q_proj,v_proj]` without quotes; people write YAML: `true`, `null`.
"""

import ast
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from trainyard.contract.errors import ConfigError

_WORDS = {"true": True, "false": False, "none": None, "null": None}


def parse(text: str) -> Any:
    """Read a value as it stands after `key=`: a Python literal, a bare list, a word of YAML, else the text."""
    stripped = text.strip()
    if stripped.lower() in _WORDS:
        return _WORDS[stripped.lower()]
    try:
        return ast.literal_eval(stripped)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    if stripped.startswith("[") and stripped.endswith("]"):
        items = [item.strip() for item in stripped[1:-1].split(",")]
        return [parse(item) for item in items if item]
    return text


def convert(value: Any, kind: Any, place: str, given: str) -> Any:
    """Convert a parsed value to a field's type.

    `place` names the field and where the value came from, `given` is the value as it was written, both for the error.
    Raises ConfigError.
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        inner = [part for part in get_args(kind) if part is not type(None)]
        return None if value is None else convert(value, inner[0], place, given)
    if origin is Literal:
        return _choice(value, get_args(kind), place)
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(convert(item, get_args(kind)[0], place, str(item)) for item in items if item is not None)
    if origin is dict:
        return _mapping(value, place, given)
    if kind is bool:
        return _expect(isinstance(value, bool), value, "True or False", place, given)
    if kind is int:
        return _expect(isinstance(value, int) and not isinstance(value, bool), value, "an integer", place, given)
    if kind is float:
        return _number(value, place, given)
    text = given if kind is str and not isinstance(value, str) and value is not None else value
    _expect(isinstance(text, str), text, "a text", place, given)
    return Path(text) if kind is Path else text


def _expect(right: bool, value: Any, what: str, place: str, given: str) -> Any:
    if not right:
        raise ConfigError(f"{place}: expected {what}, got {given!r}")
    return value


def _number(value: Any, place: str, given: str) -> float:
    if isinstance(value, str):  # YAML 1.1 reads 3e-4 as a text.
        try:
            return float(value)
        except ValueError:
            pass
    _expect(isinstance(value, int | float) and not isinstance(value, bool), value, "a number", place, given)
    return float(value)


def _choice(value: Any, choices: tuple[str, ...], place: str) -> str:
    if value not in choices:
        raise ConfigError(f"{place}: expected one of {', '.join(choices)}, got {value!r}")
    return str(value)


def _mapping(value: Any, place: str, given: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(part, str) for item in value.items() for part in item):
        raise ConfigError(f"{place}: expected a mapping of names such as {{'input': 'question'}}, got {given!r}")
    return dict(value)
