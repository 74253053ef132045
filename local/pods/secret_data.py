"""Keys and values of Secrets and ConfigMaps: from manifests of the stream, and from `--secret NAME=DIR|FILE`."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trainyard.contract.errors import ConfigError, from_os_error


def values_by_name(manifests: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, bytes]]:
    """Read Secrets or ConfigMaps: name to key to value; the last of a name counts. Raises ConfigError."""
    return {str((manifest.get("metadata") or {}).get("name") or ""): values_of(manifest) for manifest in manifests}


def values_of(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Read the keys of one Secret (`data` is base64, `stringData` wins) or ConfigMap (`data`, `binaryData`)."""
    kind = str(manifest.get("kind") or "Secret")
    name = (manifest.get("metadata") or {}).get("name")
    encoded = "data" if kind == "Secret" else "binaryData"
    plain = "stringData" if kind == "Secret" else "data"
    values: dict[str, bytes] = {}
    for key, value in (manifest.get(encoded) or {}).items():
        try:
            values[key] = base64.b64decode("".join(str(value).split()), validate=True)
        except (binascii.Error, ValueError) as error:
            hint = "; plain text belongs into stringData" if kind == "Secret" else ""
            raise ConfigError(f"{kind} {name!r}: {encoded}.{key} is not base64{hint}") from error
    for key, value in (manifest.get(plain) or {}).items():
        if not isinstance(value, str):
            raise ConfigError(f"{kind} {name!r}: {plain}.{key}: expected a string, got {value!r}; quote it")
        values[key] = value.encode()
    return values


def parse_secret_option(option: str) -> dict[str, Any]:
    """Read `NAME=DIR|FILE` into a Secret manifest; raise ConfigError, or what reading the files says.

    A folder has one file a key (as a mounted Secret; hidden files are skipped). A file is a Secret's YAML or JSON, or
    lines KEY=VALUE, with the value taken as it is; blank lines and lines that start with # are skipped.
    """
    name, equals, place = option.partition("=")
    if not name or not equals or not place:
        raise ConfigError(f"--secret: expected NAME=DIR or NAME=FILE, got {option!r}")
    path = Path(place).expanduser()
    try:
        if path.is_dir():
            files = [file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith(".")]
            values = {file.name: file.read_bytes() for file in files}
        else:
            values = _file_values(path, option)
    except OSError as error:
        raise from_os_error(error, f"--secret {option!r}: read {str(path)!r}") from error
    if not values:
        raise ConfigError(f"--secret {option!r}: {str(path)!r} holds no key")
    data = {key: base64.b64encode(value).decode("ascii") for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def _file_values(path: Path, option: str) -> dict[str, bytes]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"--secret {option!r}: {str(path)!r} is not text; put it into a folder, one file a key"
        ) from error
    if path.suffix in (".yaml", ".yml", ".json"):
        return _manifest_values(text, path, option)
    values: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        key = key.strip().removeprefix("export ").strip()
        if not equals or not key:
            raise ConfigError(f"--secret {option!r}: {path}:{number}: expected KEY=VALUE")
        values[key] = value.encode()
    return values


def _manifest_values(text: str, path: Path, option: str) -> dict[str, bytes]:
    import yaml

    try:
        manifest = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"--secret {option!r}: {path}{line}: not valid YAML") from error
    if not isinstance(manifest, dict) or manifest.get("kind") != "Secret":
        kind = manifest.get("kind") if isinstance(manifest, dict) else type(manifest).__name__
        raise ConfigError(f"--secret {option!r}: {path}: expected one object of kind Secret, got {kind!r}")
    return values_of(manifest)
