"""Resources of one pod: the TrainJob's laid over the runtime's, and what they say about devices and CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from trainyard.controller.api.quantity import Quantity, parse_quantity
from trainyard.controller.container import Manifest, upsert

ACCELERATORS: Final = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-*",
    "amd.com/gpu",
    "google.com/tpu",
    "habana.ai/gaudi",
    "huawei.com/Ascend*",
    "aws.amazon.com/neuron*",
    "gpu.intel.com/*",
)
"""Extended resources that are devices to train on, by name (design 5.3). `gpu.shared` is a time-sliced NVIDIA GPU."""

AUTO: Final = "auto"


def merge_resources(runtime: Manifest, train_job: Mapping[str, Any] | None) -> dict[str, Any]:
    """Lay the TrainJob's resourcesPerNode over a container's: per key of limits and requests, claims by name."""
    merged: dict[str, Any] = dict(runtime)
    for field, value in (train_job or {}).items():
        if value is None:
            continue
        if field == "claims":
            merged[field] = upsert(merged.get(field) or (), value, lambda old, new: old.get("name") == new.get("name"))
        else:
            merged[field] = {**(merged.get(field) or {}), **value}
    return merged


def with_text_quantities(resources: Manifest) -> dict[str, Any]:
    """Write quantities as Kubernetes does: 2 and 2.0 (which the SDK sends) become "2", "1000m" becomes "1"."""
    return {
        field: {name: parse_quantity(amount).canonical() for name, amount in value.items()}
        if field in ("limits", "requests") and isinstance(value, Mapping)
        else value
        for field, value in resources.items()
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Devices:
    """What a container's resources give its processes to compute on."""

    accelerators: int
    """Devices asked for by name; 0 when none are."""
    claims: bool
    """Whether devices are asked for by a DRA claim, whose number only the claim knows."""
    cpus: int
    """CPUs: those requested, else the limit, rounded up; at least 1."""

    @property
    def any_accelerator(self) -> bool:
        """Say whether there is a device other than CPUs."""
        return self.accelerators > 0 or self.claims

    @property
    def exactly_one(self) -> bool:
        """Say whether there is one device and surely no more."""
        return self.accelerators == 1 and not self.claims

    @property
    def maybe_several(self) -> bool:
        """Say whether there is, or may be, more than one device."""
        return self.accelerators > 1 or self.claims


def devices_of(resources: Manifest) -> Devices:
    """Read limits, requests and claims."""
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    # Kubernetes wants both equal for extended resources, and takes the limit where no request is given.
    asked = {**limits, **requests}
    accelerators = sum(parse_quantity(amount).as_int_ceil() for name, amount in asked.items() if is_accelerator(name))
    zero = Quantity(nanos=0, text="0")
    requested = parse_quantity(requests.get("cpu", 0))
    cpus = requested if requested > zero else parse_quantity(limits.get("cpu", 0))
    return Devices(
        accelerators=max(0, accelerators), claims=bool(resources.get("claims")), cpus=max(1, cpus.as_int_ceil())
    )


def is_accelerator(resource: str) -> bool:
    """Say whether an extended resource is a device to train on."""
    return any(fnmatchcase(resource, pattern) for pattern in ACCELERATORS)


def processes_per_node(asked: int | None, resources: Manifest) -> str:
    """Choose PET_NPROC_PER_NODE: the number asked for, else `auto` with accelerators, else one per CPU."""
    if asked is not None:
        return str(asked)
    devices = devices_of(resources)
    return AUTO if devices.any_accelerator else str(devices.cpus)
