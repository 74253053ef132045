"""The form of the objects in a plan: metadata with its owner, keys in the order in which people write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.contract import names
from trainyard.controller.container import Manifest
from trainyard.controller.info import Info


def owned_metadata(
    info: Info, name: str, *, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Write an object's metadata; it belongs to the TrainJob once that has a uid, which is when it is on a cluster."""
    metadata: dict[str, Any] = {"name": name, "namespace": info.namespace}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    if info.train_job.metadata.uid:
        metadata["ownerReferences"] = [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.TRAIN_JOB,
                "name": info.name,
                "uid": info.train_job.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    return metadata


def config_map(info: Info, name: str, data: Mapping[str, str], *, immutable: bool = False) -> dict[str, Any]:
    """Write a ConfigMap that belongs to the TrainJob."""
    manifest: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": owned_metadata(info, name)}
    if immutable:
        manifest["immutable"] = True
    return manifest | {"data": dict(data)}


def ordered(manifest: Manifest, order: Sequence[str]) -> dict[str, Any]:
    """Put the named keys first, in this order; the others follow as they stand."""
    return {key: manifest[key] for key in order if key in manifest} | dict(manifest)


def plain(value: Any) -> Any:
    """Copy a value into dicts and lists that share nothing, with the input or with each other."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value
