"""YAML as a person would write it, for the files of a job's folder. Imported only where YAML is written or read."""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def write_stream(documents: Iterable[Mapping[str, Any]]) -> str:
    """Write documents as a YAML stream."""
    plain = [dict(document) for document in documents]
    text: str = yaml.dump_all(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text


def read_stream(text: str) -> list[dict[str, Any]]:
    """Read a YAML stream; empty documents are left out. Raises ValueError for what is no YAML."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return [document for document in yaml.load_all(text, loader) if document is not None]
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
