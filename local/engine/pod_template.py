"""From a JobSet to its pods: what the JobSet and Job controllers add to a pod template.

Names, host name and subdomain, JobSet's and Job's labels and annotations, JOB_COMPLETION_INDEX, and the volumes of
volumeClaimPolicies. Pure.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, Final

from trainyard.contract import env, labels, names
from trainyard.local.engine.job_set_spec import JobSetSpec, ReplicatedJob
from trainyard.local.pods.pod_instance import PodInstance

_PREFIX: Final = "jobset.sigs.k8s.io/"


def job_name(job_set: JobSetSpec, job: ReplicatedJob, job_index: int) -> str:
    """Name a Job as JobSet does."""
    return f"{job_set.name}-{job.name}-{job_index}"


def pod_instance(
    job_set: JobSetSpec, job: ReplicatedJob, job_index: int, slot: int, *, restarts: int = 0, attempt: int = 0,
    job_set_uid: str = "", uid: str = "",
) -> PodInstance:  # fmt: skip
    """Build the pod of a Job's index (or numbered slot, for a NonIndexed Job)."""
    owner = job_name(job_set, job, job_index)
    name = names.pod_hostname(job_set.name, job.name, job_index, slot)
    template = (job.template.get("spec") or {}).get("template") or {}
    metadata = template.get("metadata") or {}
    marks = _marks(job_set, job, job_index, restarts, job_set_uid)
    pod_labels = {**(metadata.get("labels") or {}), **marks}
    pod_labels["batch.kubernetes.io/job-name"] = pod_labels["job-name"] = owner
    annotations = {**(metadata.get("annotations") or {}), **marks}
    if job.job.indexed:
        pod_labels[labels.JOB_COMPLETION_INDEX] = annotations[labels.JOB_COMPLETION_INDEX] = str(slot)
    return PodInstance(
        namespace=job_set.namespace,
        name=name,
        job=owner,
        hostname=name if job.job.indexed else str((template.get("spec") or {}).get("hostname") or name),
        subdomain=job_set.subdomain or str((template.get("spec") or {}).get("subdomain") or ""),
        replicated_job=job.name,
        job_index=job_index,
        completion_index=slot if job.job.indexed else None,
        labels=pod_labels,
        annotations=annotations,
        spec=_pod_spec(job_set, job, template.get("spec") or {}),
        attempt=attempt,
        ancestor=job.ancestor,
        uid=uid,
    )


def all_pods(job_set: JobSetSpec) -> Iterator[PodInstance]:
    """Build every pod that the JobSet can have, in order."""
    for job in job_set.replicated_jobs:
        for job_index in range(job.replicas):
            for slot in range(job.job.slots):
                yield pod_instance(job_set, job, job_index, slot)


def _marks(job_set: JobSetSpec, job: ReplicatedJob, job_index: int, restarts: int, uid: str) -> dict[str, str]:
    owner = job_name(job_set, job, job_index)
    before = before_in_group = total = total_in_group = 0
    for other in job_set.replicated_jobs:
        if other.name == job.name:
            before, before_in_group = total, total_in_group
        total += other.replicas
        total_in_group += other.replicas if other.group == job.group else 0
    marks = {
        labels.JOBSET_NAME: job_set.name,
        labels.JOBSET_UID: uid,
        labels.REPLICATED_JOB_NAME: job.name,
        labels.RESTART_ATTEMPT: str(restarts),
        labels.REPLICATED_JOB_REPLICAS: str(job.replicas),
        labels.GLOBAL_REPLICAS: str(total),
        labels.JOB_INDEX: str(job_index),
        # JobSet's own key: SHA-1 of namespace/name; it names, it protects nothing.
        labels.JOB_KEY: hashlib.sha1(f"{job_set.namespace}/{owner}".encode(), usedforsecurity=False).hexdigest(),
        labels.JOB_GLOBAL_INDEX: str(before + job_index),
        labels.GROUP_NAME: job.group,
        f"{_PREFIX}group-replicas": str(total_in_group),
        f"{_PREFIX}job-group-index": str(before_in_group + job_index),
    }
    if job_set.coordinator is not None:
        marks[f"{_PREFIX}coordinator"] = job_set.coordinator
    return marks


def _pod_spec(job_set: JobSetSpec, job: ReplicatedJob, template: dict[str, Any]) -> dict[str, Any]:
    spec = {**template, "restartPolicy": job.job.restart_policy}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    mounted = {mount.get("name") for container in containers for mount in container.get("volumeMounts") or ()}
    there = {volume.get("name") for volume in spec.get("volumes") or ()}
    claims = [
        {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{job_set.name}"}}
        for claim, _ in job_set.claims
        if claim in mounted and claim not in there
    ]
    if claims:
        spec["volumes"] = [*(spec.get("volumes") or ()), *claims]
    if job.job.indexed:
        for field in ("initContainers", "containers"):
            if spec.get(field):
                spec[field] = [_with_index(container) for container in spec[field]]
    return spec


def _with_index(container: dict[str, Any]) -> dict[str, Any]:
    given = container.get("env") or []
    if any(item.get("name") == env.JOB_COMPLETION_INDEX for item in given):
        return container
    path = f"metadata.labels['{labels.JOB_COMPLETION_INDEX}']"
    item = {"name": env.JOB_COMPLETION_INDEX, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return {**container, "env": [*given, item]}
