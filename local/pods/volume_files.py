"""Files of volumes that are made of keys: configMap, secret, downwardAPI and projected, with their modes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from trainyard.contract.errors import ConfigError
from trainyard.local.pods.downward import field_value, resource_value
from trainyard.local.pods.job_context import JobContext
from trainyard.local.pods.pod_environment import missing_key, missing_object
from trainyard.local.pods.pod_instance import PodInstance

DEFAULT_MODE: Final = 0o644


@dataclass(frozen=True, kw_only=True, slots=True)
class VolumeFile:
    """One file of a volume."""

    path: str
    """Relative to the volume."""
    data: bytes
    mode: int
    is_code: bool = False
    """Whether it is a ConfigMap's: text in which names, ports and paths are replaced, as in a command."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Keyed:
    kind: str
    name: str
    values: Mapping[str, bytes] | None
    items: list[Mapping[str, Any]] | None
    optional: bool
    mode: int


def volume_files(kind: str, source: Mapping[str, Any], pod: PodInstance, context: JobContext) -> Iterator[VolumeFile]:
    """Give the files of one volume, a later one of a path counting; raise ConfigError for the first that is missing."""
    mode = _number(source, "defaultMode", DEFAULT_MODE)
    if kind == "projected":
        for part in source.get("sources") or ():
            for part_kind, part_source in part.items():
                yield from _part_files(part_kind, part_source or {}, mode, pod, context)
    else:
        yield from _part_files(kind, source, mode, pod, context)


def _part_files(
    kind: str, source: Mapping[str, Any], mode: int, pod: PodInstance, context: JobContext
) -> Iterator[VolumeFile]:
    if kind in ("secret", "configMap"):
        name = str(source.get("secretName") or source.get("name") or "")
        known = context.secrets if kind == "secret" else context.config_maps
        yield from _keyed_files(
            _Keyed(
                kind="Secret" if kind == "secret" else "ConfigMap",
                name=name,
                values=known.get(name),
                items=source.get("items"),
                optional=bool(source.get("optional")),
                mode=mode,
            ),
            known,
        )
    elif kind == "downwardAPI":
        for item in source.get("items") or ():
            data = _downward(item, pod, context).encode()
            yield VolumeFile(path=_safe(item.get("path")), data=data, mode=_mode(item, mode))
    elif kind == "serviceAccountToken":
        token = context.progress.token(pod) if context.progress is not None else ""
        yield VolumeFile(path=_safe(source.get("path")), data=token.encode(), mode=0o600)
    else:
        raise ConfigError(
            f"projected source {kind!r} is not supported here; supported are secret, configMap, downwardAPI and "
            "serviceAccountToken"
        )


def _keyed_files(keyed: _Keyed, known: Mapping[str, object]) -> Iterator[VolumeFile]:
    if keyed.values is None:
        if not keyed.optional:
            raise ConfigError(missing_object(keyed.kind, keyed.name, known))
        return
    is_code = keyed.kind == "ConfigMap"
    if keyed.items is None:
        for key, value in sorted(keyed.values.items()):
            yield VolumeFile(path=_safe(key), data=value, mode=keyed.mode, is_code=is_code)
        return
    for item in keyed.items:
        key = str(item.get("key") or "")
        if key in keyed.values:
            path = _safe(item.get("path"))
            yield VolumeFile(path=path, data=keyed.values[key], mode=_mode(item, keyed.mode), is_code=is_code)
        elif not keyed.optional:
            raise ConfigError(missing_key(keyed.kind, keyed.name, key, keyed.values))


def _downward(item: Mapping[str, Any], pod: PodInstance, context: JobContext) -> str:
    if "fieldRef" in item:
        address = context.network.addresses.get(pod.hostname, "127.0.0.1")
        return field_value(str(item["fieldRef"].get("fieldPath") or ""), pod, address, in_volume=True)
    reference = item.get("resourceFieldRef")
    if reference is None:
        raise ConfigError("downwardAPI item: expected fieldRef or resourceFieldRef")
    name = reference.get("containerName")
    for container in (*pod.init_containers(), *pod.containers()):
        if container.get("name") == name:
            return resource_value(reference, container)
    raise ConfigError(f"resourceFieldRef.containerName: the pod has no container {name!r}")


def _mode(item: Mapping[str, Any], default: int) -> int:
    return _number(item, "mode", default)


def _number(entry: Mapping[str, Any], field: str, default: int) -> int:
    mode = entry.get(field)
    if mode is None:
        return default
    if type(mode) is not int or not 0 <= mode <= 0o777:
        raise ConfigError(f"{field}: expected a number from 0 to 0777 (octal, without quotes), got {mode!r}")
    return mode


def _safe(path: Any) -> str:
    """Refuse a path that leaves the volume."""
    pure = PurePosixPath(str(path or ""))
    if not pure.parts or pure.is_absolute() or ".." in pure.parts:
        raise ConfigError(f"file path {path!r}: expected a path inside the volume")
    return str(pure)
