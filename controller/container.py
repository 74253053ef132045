"""One container of a plan: its manifest, and the changes that plugins make, each giving a new value.

Upsert rule, everywhere: an entry with the same identity is replaced where it stands, a new one goes to the end.
Environment variables are known by name, mounts by their path, ports by number or name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Manifest = Mapping[str, Any]
"""A part of a Kubernetes object. Never changed in place: values share parts with each other and with the input."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """A container or init container."""

    manifest: Manifest
    """The container as Kubernetes knows it."""

    @property
    def name(self) -> str:
        """Give the container's name."""
        return str(self.manifest.get("name", ""))

    @property
    def command(self) -> tuple[str, ...]:
        """Give the command; empty when the image's own is used."""
        return tuple(self.manifest.get("command") or ())

    @property
    def env(self) -> tuple[Manifest, ...]:
        """Give the environment's entries in order."""
        return tuple(self.manifest.get("env") or ())

    @property
    def volume_mounts(self) -> tuple[Manifest, ...]:
        """Give the mounts in order."""
        return tuple(self.manifest.get("volumeMounts") or ())

    @property
    def resources(self) -> Manifest:
        """Give limits, requests and claims; empty when there are none."""
        resources: Manifest = self.manifest.get("resources") or {}
        return resources

    def with_field(self, name: str, value: Any) -> Container:
        """Set one field; an empty list or map, or None, removes it, as Kubernetes reads both alike."""
        manifest = dict(self.manifest)
        if value is None or value in ([], {}):
            manifest.pop(name, None)
        else:
            manifest[name] = value
        return Container(manifest=manifest)

    def with_env(self, entries: Iterable[Manifest]) -> Container:
        """Upsert environment variables by name."""
        return self._with_list("env", entries, lambda old, new: old.get("name") == new.get("name"))

    def with_ports(self, ports: Iterable[Manifest]) -> Container:
        """Upsert ports by number or name."""
        return self._with_list("ports", ports, _same_port)

    def with_volume_mounts(self, mounts: Iterable[Manifest]) -> Container:
        """Upsert mounts by path."""
        return self._with_list("volumeMounts", mounts, lambda old, new: old.get("mountPath") == new.get("mountPath"))

    def with_secret_env(self, secret: str) -> Container:
        """Append a Secret whose keys become environment variables."""
        sources = [*(self.manifest.get("envFrom") or ()), {"secretRef": {"name": secret}}]
        return self.with_field("envFrom", sources)

    def _with_list(
        self, name: str, entries: Iterable[Manifest], same: Callable[[Manifest, Manifest], bool]
    ) -> Container:
        return self.with_field(name, upsert(self.manifest.get(name) or (), entries, same))


def upsert(
    current: Sequence[Manifest], entries: Iterable[Manifest], same: Callable[[Manifest, Manifest], bool]
) -> list[Manifest]:
    """Give `current` with each entry replacing the one that is the same, or appended."""
    result = list(current)
    for entry in entries:
        for index, old in enumerate(result):
            if same(old, entry):
                result[index] = entry
                break
        else:
            result.append(entry)
    return result


def variable(name: str, value: str) -> dict[str, Any]:
    """Make an environment entry with a plain value."""
    return {"name": name, "value": value}


def field_variable(name: str, field_path: str) -> dict[str, Any]:
    """Make an environment entry that reads a field of the pod (downward API)."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}


def _same_port(old: Manifest, new: Manifest) -> bool:
    if old.get("containerPort") == new.get("containerPort"):
        return True
    return new.get("name") is not None and old.get("name") == new.get("name")
