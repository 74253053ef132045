"""JobSet: turns the pod sets back into the one JobSet that a TrainJob becomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainyard.contract import names
from trainyard.controller.container import Container, Manifest
from trainyard.controller.info import Info, PodSet
from trainyard.controller.manifest import ordered, owned_metadata
from trainyard.controller.resources import with_text_quantities

_JOB_SET_ORDER: Final = (
    "suspend",
    "managedBy",
    "network",
    "startupPolicy",
    "successPolicy",
    "failurePolicy",
    "coordinator",
    "ttlSecondsAfterFinished",
    "volumeClaimPolicies",
    "replicatedJobs",
)
_REPLICATED_JOB_ORDER: Final = ("name", "groupName", "replicas", "dependsOn", "template")
_JOB_ORDER: Final = ("parallelism", "completions", "completionMode", "backoffLimit", "podFailurePolicy")
_CONTAINER_ORDER: Final = (
    "name",
    "image",
    "imagePullPolicy",
    "restartPolicy",
    "command",
    "args",
    "workingDir",
    "ports",
    "envFrom",
    "env",
    "resources",
    "volumeMounts",
)


class JobSet:
    """Builds the JobSet."""

    def build(self, info: Info) -> Iterator[dict[str, Any]]:
        """Write the JobSet of the TrainJob's name."""
        spec = {
            **info.job_set_spec,
            "suspend": bool(info.train_job.spec.suspend),
            "replicatedJobs": [_replicated_job(pod_set) for pod_set in info.pod_sets],
        }
        yield {
            "apiVersion": names.JOBSET_API_VERSION,
            "kind": names.JOBSET,
            "metadata": owned_metadata(info, info.name, labels=info.labels, annotations=info.annotations),
            "spec": ordered(spec, _JOB_SET_ORDER),
        }


def _replicated_job(pod_set: PodSet) -> dict[str, Any]:
    job_template: Manifest = pod_set.manifest.get("template") or {}
    job_spec = {
        **pod_set.job_spec,
        "parallelism": pod_set.count,
        "completions": pod_set.completions,
        "template": _pod_template(pod_set),
    }
    template = {**job_template, "spec": ordered(job_spec, _JOB_ORDER)}
    return ordered({**pod_set.manifest, "replicas": pod_set.replicas, "template": template}, _REPLICATED_JOB_ORDER)


def _pod_template(pod_set: PodSet) -> dict[str, Any]:
    template: dict[str, Any] = dict(pod_set.job_spec.get("template") or {})
    metadata: dict[str, Any] = dict(template.pop("metadata", None) or {})
    for field, added in (("labels", pod_set.pod_labels), ("annotations", pod_set.pod_annotations)):
        if added:
            metadata[field] = {**(metadata.get(field) or {}), **added}
    parts = {
        "initContainers": [_container(container) for container in pod_set.init_containers],
        "containers": [_container(container) for container in pod_set.containers],
        "volumes": list(pod_set.volumes),
    }
    spec = {field: value for field, value in pod_set.pod_spec.items() if field not in parts}
    spec |= {field: value for field, value in parts.items() if value}
    return ({"metadata": metadata} if metadata else {}) | template | {"spec": spec}


def _container(container: Container) -> Mapping[str, Any]:
    manifest: dict[str, Any] = dict(container.manifest)
    if manifest.get("resources"):
        manifest["resources"] = with_text_quantities(manifest["resources"])
    return ordered(manifest, _CONTAINER_ORDER)
