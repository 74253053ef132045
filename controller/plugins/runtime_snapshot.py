"""RuntimeSnapshot: keeps the runtime with which a job was admitted, so that later edits of it change no running job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

from trainyard.contract import names
from trainyard.controller.api.yaml_scalars import plain_value
from trainyard.controller.info import Info
from trainyard.controller.manifest import config_map

_KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_Dumper: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class RuntimeSnapshot:
    """Builds the ConfigMap `<job>-runtime-snapshot`."""

    def build(self, info: Info) -> Iterator[dict[str, Any]]:
        """Write the runtime as YAML, immutable."""
        data = {names.RUNTIME_SNAPSHOT_KEY: snapshot(info.runtime.raw)}
        yield config_map(info, names.runtime_snapshot(info.name), data, immutable=True)


def snapshot(runtime: dict[str, Any]) -> str:
    """Write a runtime as YAML, without what only the server knows.

    Keys are sorted: the API server gives them back in another order, and the text must not change with it.
    """
    metadata = {key: value for key, value in (runtime.get("metadata") or {}).items() if key in _KEPT_METADATA and value}
    if "annotations" in metadata:
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k != _LAST_APPLIED}
    kept = {key: runtime[key] for key in ("apiVersion", "kind", "spec") if key in runtime} | {"metadata": metadata}
    text: str = yaml.dump(kept, Dumper=_NoAliases, allow_unicode=True, default_flow_style=False, width=1_000_000)
    return text


class _NoAliases(_Dumper):  # type: ignore[misc, valid-type]
    """Writes shared parts out in full, so that the text depends on the values alone."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Quote what Kubernetes takes for something else: PyYAML writes `y` and `1e-4` bare."""
    style = None if plain_value(text) == text else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_NoAliases.add_representer(str, _represent_text)
