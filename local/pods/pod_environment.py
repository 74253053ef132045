"""A container's variables, as the kubelet computes them: envFrom, then env in order, a later one of a name winning.

`$(VAR)` in a value refers to variables defined before it. A missing Secret, ConfigMap or key is a problem unless the
reference is optional. Variables of the machine come elsewhere (`host_environment`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.contract.errors import ConfigError
from trainyard.local.pods.downward import field_value, resource_value
from trainyard.local.pods.expansion import expand, references
from trainyard.local.pods.job_context import JobContext
from trainyard.local.pods.pod_instance import PodInstance


@dataclass(kw_only=True, slots=True)
class ContainerVariables:
    """The variables that a container's manifest defines."""

    values: dict[str, str] = field(default_factory=dict)
    from_secrets: set[str] = field(default_factory=set)
    """Names whose value is a Secret's, or was made with one: never shown, and no text in them is replaced."""
    problems: list[str] = field(default_factory=list)
    """What is missing or malformed, one sentence each."""


def container_variables(container: Mapping[str, Any], pod: PodInstance, context: JobContext) -> ContainerVariables:
    """Compute a container's variables, with every problem."""
    found = ContainerVariables()
    place = f"pod {pod.name}, container {container.get('name')!r}"
    for source in container.get("envFrom") or ():
        _add_all(found, source, place, context)
    for entry in container.get("env") or ():
        _add_one(found, entry, place, container, pod, context)
    return found


def _add_all(found: ContainerVariables, source: Mapping[str, Any], place: str, context: JobContext) -> None:
    prefix = str(source.get("prefix") or "")
    for field_name, kind in (("secretRef", "Secret"), ("configMapRef", "ConfigMap")):
        reference = source.get(field_name)
        if reference is None:
            continue
        known = context.secrets if kind == "Secret" else context.config_maps
        name = str(reference.get("name") or "")
        if name not in known:
            if not reference.get("optional"):
                found.problems.append(f"{place}: envFrom: {missing_object(kind, name, known)}")
            continue
        for key, value in sorted(known[name].items()):
            _set_bytes(found, f"{prefix}{key}", value, f"{place}: envFrom: {kind} {name!r}", kind == "Secret")


def _add_one(
    found: ContainerVariables,
    entry: Mapping[str, Any],
    place: str,
    container: Mapping[str, Any],
    pod: PodInstance,
    context: JobContext,
) -> None:
    name = str(entry.get("name") or "")
    place = f"{place}: env {name}"
    value, source = entry.get("value"), entry.get("valueFrom")
    if value is not None and not isinstance(value, str):
        found.problems.append(f"{place}: expected a string, got {value!r}; quote it")
    elif value or not source:
        secret = any(reference in found.from_secrets for reference in references(value or ""))
        _set(found, name, expand(value or "", found.values), secret)
    elif "secretKeyRef" in source:
        _set_key(found, name, source["secretKeyRef"], "Secret", place, context)
    elif "configMapKeyRef" in source:
        _set_key(found, name, source["configMapKeyRef"], "ConfigMap", place, context)
    else:
        try:
            _set(found, name, _downward(source, container, pod, context), False)
        except ConfigError as error:
            found.problems.append(f"{place}: {error}")


def _downward(source: Mapping[str, Any], container: Mapping[str, Any], pod: PodInstance, context: JobContext) -> str:
    if "fieldRef" in source:
        address = context.network.addresses.get(pod.hostname, "127.0.0.1")
        return field_value(str(source["fieldRef"].get("fieldPath") or ""), pod, address)
    if "resourceFieldRef" in source:
        reference = source["resourceFieldRef"]
        wanted = reference.get("containerName")
        if wanted:
            containers = (*pod.init_containers(), *pod.containers())
            named = next((other for other in containers if other.get("name") == wanted), None)
            if named is None:
                raise ConfigError(f"resourceFieldRef.containerName: the pod has no container {wanted!r}")
            container = named
        return resource_value(reference, container)
    kinds = ", ".join(sorted(source)) or "nothing"
    raise ConfigError(f"valueFrom: expected secretKeyRef, configMapKeyRef, fieldRef or resourceFieldRef, got {kinds}")


def _set_key(
    found: ContainerVariables, name: str, reference: Mapping[str, Any], kind: str, place: str, context: JobContext
) -> None:
    known = context.secrets if kind == "Secret" else context.config_maps
    owner, key = str(reference.get("name") or ""), str(reference.get("key") or "")
    if owner in known and key in known[owner]:
        _set_bytes(found, name, known[owner][key], f"{place}: {kind} {owner!r}, key {key!r}", kind == "Secret")
    elif not reference.get("optional"):
        problem = (
            missing_object(kind, owner, known) if owner not in known else missing_key(kind, owner, key, known[owner])
        )
        found.problems.append(f"{place}: {problem}")


def _set_bytes(found: ContainerVariables, name: str, value: bytes, place: str, secret: bool) -> None:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        found.problems.append(f"{place}: not text, so no variable can hold it; mount it as a volume")
        return
    _set(found, name, text, secret)


def _set(found: ContainerVariables, name: str, value: str, secret: bool) -> None:
    if not name or "=" in name or "\0" in name or "\0" in value:
        found.problems.append(f"env {name!r}: not a name and value that a process can have")
        return
    found.values[name] = value
    (found.from_secrets.add if secret else found.from_secrets.discard)(name)


def missing_object(kind: str, name: str, known: Mapping[str, object]) -> str:
    """Say that a Secret or ConfigMap is not there, and what to do."""
    there = f"there are {', '.join(sorted(known))}" if known else "there is none"
    way = f", or pass --secret {name}=DIR or {name}=FILE" if kind == "Secret" else ""
    return f"{kind} {name!r} is not there ({there}); add its YAML to the input{way}"


def missing_key(kind: str, name: str, key: str, known: Mapping[str, object]) -> str:
    """Say that a Secret or ConfigMap lacks a key."""
    return f"{kind} {name!r} has no key {key!r}; it has {', '.join(sorted(known)) or 'none'}"
