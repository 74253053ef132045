"""The places that a configuration comes from, each read into a layer: `--config`, LORA_CONFIG, key=value."""

import importlib.util
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from trainyard.contract import env
from trainyard.contract.errors import ConfigError, UnsupportedError
from trainyard.trainers.torchtune import keys
from trainyard.trainers.torchtune.values import parse

_VARIABLE: Final = re.compile(r"\$\{([\w.]+)\}")


@dataclass(frozen=True, slots=True)
class Given:
    """A value, where it came from, and how it was written there."""

    value: Any
    origin: str
    text: str


Layer = dict[str, Given]
"""Dotted keys that are ours, or torchtune's spellings of ours, to what was given."""


def of_overrides(overrides: Sequence[str]) -> Layer:
    """Read the key=value words of the command line."""
    layer: Layer = {}
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ConfigError(f"command line: expected key=value, got {word!r}")
        _enter(layer, keys.canonical(key), Given(parse(text), "command line", text), strict=True)
    return layer


def of_lora_config(environ: Mapping[str, str]) -> Layer:
    """Read LORA_CONFIG, a JSON object with PEFT's names."""
    text = environ.get(env.LORA_CONFIG, "").strip()
    if not text:
        return {}
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{env.LORA_CONFIG}: expected a JSON object, got {text!r} ({error})") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{env.LORA_CONFIG}: expected a JSON object, got {text!r}")
    layer: Layer = {}
    for name, value in raw.items():
        given = Given(value, env.LORA_CONFIG, json.dumps(value))
        if name in keys.PEFT:
            layer[keys.PEFT[name]] = given
        elif name not in keys.PEFT_FIXED:
            raise ConfigError(
                f"{env.LORA_CONFIG}: unknown name {name!r}{keys.near(name, (*keys.PEFT, *keys.PEFT_FIXED))}"
            )
        elif value not in keys.PEFT_FIXED[name]:
            raise UnsupportedError(
                f"{env.LORA_CONFIG}: {name}: {given.text!r} is not supported; {_only(keys.PEFT_FIXED[name])}"
            )
    return layer


def of_config(config: str, method: str) -> Layer:
    """Read what `--config` names: nothing for `auto`, a YAML file, or one of torchtune's own configs.

    Of torchtune's own only the figures of the training are taken, those of the adapter only when `method` has one.
    """
    if config == "auto":
        return {}
    path = Path(config)
    named = None if path.is_file() else _named_config(config)
    if named is None and not path.is_file():
        folder = _torchtune_configs()
        names = [str(file.relative_to(folder).with_suffix("")) for file in folder.rglob("*.yaml")] if folder else []
        raise ConfigError(f"--config: {config!r} is neither auto, nor a file, nor a name{keys.near(config, names)}")
    raw = _read_yaml(named or path)
    layer: Layer = {}
    flat = dict(_flatten(raw))
    variables = {name for value in flat.values() if isinstance(value, str) for name in _VARIABLE.findall(value)}
    for key, value in flat.items():
        if named is not None and (key not in keys.OF_NAMED_CONFIG or value is None):
            continue
        if named is not None and method == "full" and key.startswith("model."):
            continue
        if key in variables and not keys.is_known(key):
            continue  # A name of the file's own, there only to be put into other values.
        value = _interpolate(value, flat, config)
        _enter(layer, key, Given(value, f"config {config}", str(value)), strict=named is None)
    return layer


def _named_config(name: str) -> Path | None:
    folder = _torchtune_configs()
    if folder is None or not re.fullmatch(r"[\w.\-]+(/[\w.\-]+)*", name):
        return None
    file = folder / f"{name}.yaml"
    return file if file.is_file() else None


def _torchtune_configs() -> Path | None:
    """Find the folder of torchtune's own configs, without importing it."""
    spec = importlib.util.find_spec("recipes")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(folders[0], "configs") if folders else None


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config: cannot read {str(file)!r}: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"--config: {str(file)!r} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"--config: {str(file)!r}: expected a mapping of keys, found {type(raw).__name__}")
    return raw


def _flatten(raw: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in raw.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and not prefix:
            yield from _flatten(value, f"{key}.")
        else:
            yield keys.canonical(key), value


def _interpolate(value: Any, flat: Mapping[str, Any], config: str) -> Any:
    """Put in other keys' values for `${key}`, as torchtune's configs write them."""
    if not isinstance(value, str):
        return value

    def put(match: re.Match[str]) -> str:
        if not isinstance(flat.get(match[1]), str | int | float):
            raise ConfigError(f"--config {config}: {match[0]} names no value of the file")
        return str(flat[match[1]])

    return _VARIABLE.sub(put, value)


def _enter(layer: Layer, key: str, given: Given, *, strict: bool) -> None:
    """Enter a key of ours; check that one of torchtune's has a value that changes nothing here."""
    if not keys.is_known(key):
        raise ConfigError(f"{key} ({given.origin}): unknown key{keys.near(key)}")
    allowed = keys.allowed(key)
    if allowed is None:
        layer[key] = given
    elif strict and keys.ANY not in allowed and given.value not in allowed:
        raise UnsupportedError(f"{key} ({given.origin}): {given.text!r} is not supported; {_only(allowed)}")


def _only(allowed: Iterable[Any]) -> str:
    return f"supported: {', '.join(str(value) for value in allowed)}"
