"""Objects as YAML or JSON text that people read and that `kubectl` reads the same way.

Keys keep their order, texts of several lines become blocks. Strings that any YAML reader could take for something else
are quoted: PyYAML writes `1e3` and `y` bare, which a YAML reader in Go takes for a number and for true.
Equal input gives equal bytes.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import yaml

_LOOKS_LIKE_A_VALUE: Final = re.compile(
    r"""[-+]?(\.\d|\d)[\d_.,:eExXoObBa-fA-F+-]*     # numbers in any base, dates, times, sexagesimals
        | y | n | yes | no | on | off | true | false | null | ~ | [-+]?\.(inf|nan)""",
    re.VERBOSE | re.IGNORECASE,
)


class _Dumper(yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:  # Anchors are legal and hard to read.
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif _LOOKS_LIKE_A_VALUE.fullmatch(text):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def to_yaml(documents: Iterable[Any]) -> str:
    """Write objects as YAML documents, `---` between them."""
    return yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=1_000_000
    )


def to_json(items: Sequence[Any], *, always_list: bool = True) -> str:
    """Write objects as one JSON document: a Kubernetes List, or the only object itself."""
    single = len(items) == 1 and not always_list
    content = items[0] if single else {"apiVersion": "v1", "kind": "List", "items": list(items)}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def write_objects(objects: Sequence[Any], output: str, *, always_list: bool = False) -> None:
    """Write objects to standard output as UTF-8, whatever the locale: programs read them."""
    text = to_json(objects, always_list=always_list) if output == "json" else to_yaml(objects)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()
