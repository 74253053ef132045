"""What Kubernetes' downward API tells a container about itself: fieldRef and resourceFieldRef."""

import os
import platform
import re
from collections.abc import Mapping
from typing import Any, Final

from trainyard.contract.errors import ConfigError
from trainyard.controller.api.quantity import Quantity, parse_quantity
from trainyard.local.pods.pod_instance import PodInstance

_KEYED: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_KNOWN: Final = (
    "metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'], metadata.annotations['KEY'], "
    "spec.nodeName, spec.serviceAccountName, status.podIP, status.podIPs, status.hostIP, status.hostIPs"
)
_HOST_ADDRESS: Final = "127.0.0.1"
_BYTES: Final = ("memory", "ephemeral-storage")


def field_value(path: str, pod: PodInstance, address: str, *, in_volume: bool = False) -> str:
    """Read a pod's field; `address` is the pod's own. Raises ConfigError for a field that does not exist."""
    keyed = _KEYED.fullmatch(path)
    if keyed is not None:
        return (pod.labels if keyed[1] == "labels" else pod.annotations).get(keyed[2], "")
    if in_volume and path in ("metadata.labels", "metadata.annotations"):
        entries = pod.labels if path.endswith("labels") else pod.annotations
        return "\n".join(f'{name}="{_escape(value)}"' for name, value in sorted(entries.items()))
    fields = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": platform.node(),
        "spec.serviceAccountName": str(pod.spec.get("serviceAccountName") or "default"),
        "status.podIP": address,
        "status.podIPs": address,
        "status.hostIP": _HOST_ADDRESS,
        "status.hostIPs": _HOST_ADDRESS,
    }
    if path not in fields:
        raise ConfigError(f"no field {path!r}; expected one of {_KNOWN}")
    return fields[path]


def resource_value(reference: Mapping[str, Any], container: Mapping[str, Any]) -> str:
    """Read a container's request or limit in units of the divisor, rounded up.

    A limit that is not set is the machine's, as it is the node's on a cluster. Raises ConfigError.
    """
    section, dot, name = str(reference.get("resource") or "").partition(".")
    if section not in ("limits", "requests") or not dot or not name:
        raise ConfigError(
            f"resourceFieldRef.resource: expected limits.NAME or requests.NAME, got {section + dot + name!r}"
        )
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    amount = limits.get(name) if section == "limits" else requests.get(name, limits.get(name))
    divisor = _quantity(reference.get("divisor") or "1", "resourceFieldRef.divisor")
    if divisor.nanos <= 0:
        divisor = parse_quantity("1")  # Kubernetes' zero value means the default.
    value = _quantity(amount, f"resources.{section}.{name}") if amount is not None else _of_machine(section, name)
    return str(-(-value.nanos // divisor.nanos))


def _quantity(amount: Any, place: str) -> Quantity:
    try:
        return parse_quantity(amount)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from error


def _of_machine(section: str, name: str) -> Quantity:
    if section == "requests":
        return parse_quantity("0")
    if name == "cpu":
        return parse_quantity(os.cpu_count() or 1)
    if name in _BYTES:
        return parse_quantity(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if name == "memory" else "0")
    return parse_quantity("0")


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
