"""What JobSet and Kubernetes would refuse of the finished pods, found before anything is created."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.contract import names
from trainyard.controller.api.problem import Problem
from trainyard.controller.api.quantity import parse_quantity
from trainyard.controller.container import Container, Manifest
from trainyard.controller.info import Info, PodSet

MAX_NAME: Final = 63
_SUFFIX: Final = "-abcde"
"""What the Job controller appends to an indexed pod's name: a hyphen and five characters."""


def check_names(info: Info) -> Iterator[Problem]:
    """Refuse a TrainJob whose name makes names that are too long (JobSet's webhook has the same rules)."""
    longest = max((_longest_name(info, pod_set) for pod_set in info.pod_sets), key=len, default="")
    excess = len(longest) - MAX_NAME
    if excess > 0:
        yield info.problem(
            "metadata.name",
            f"expected at most {max(0, len(info.name) - excess)} characters with runtime {info.runtime.name!r}, got "
            f"{len(info.name)}: {longest!r} would be longer than {MAX_NAME}",
        )


def doubts(info: Info) -> Iterator[Problem]:
    """Find what the reference admits and a cluster then refuses: the Job would be created with no pods."""
    claims = _claims(info)
    for pod_set in info.pod_sets:
        volumes = {volume["name"] for volume in pod_set.volumes} | claims
        for container in (*pod_set.containers, *pod_set.init_containers):
            if not container.manifest.get("image"):
                message = f"container {container.name!r} of the job {pod_set.name!r} has no image"
                yield _found(info, pod_set, container, "image", message)
            yield from _check_mounts(info, pod_set, container, volumes)
            yield from _check_resources(info, pod_set, container)


def _longest_name(info: Info, pod_set: PodSet) -> str:
    """Give the longest name of a job, a pod or a claim that a pod set leads to."""
    replica = max(0, pod_set.replicas - 1)
    found = [f"{info.name}-{pod_set.name}-{replica}"]
    if pod_set.job_spec.get("completionMode", "Indexed") == "Indexed":
        found.append(names.pod_hostname(info.name, pod_set.name, replica, max(0, pod_set.completions - 1)) + _SUFFIX)
    found += [f"{claim}-{info.name}" for claim in _claims(info)]
    return max(found, key=len)


def _claims(info: Info) -> set[str]:
    """Give the claims of volumeClaimPolicies, which JobSet makes volumes of."""
    return {
        template["metadata"]["name"]
        for policy in info.job_set_spec.get("volumeClaimPolicies") or ()
        for template in policy.get("templates") or ()
    }


def _check_mounts(info: Info, pod_set: PodSet, container: Container, volumes: set[str]) -> Iterator[Problem]:
    for index, mount in enumerate(container.volume_mounts):
        if mount["name"] not in volumes:
            there = ", ".join(sorted(volumes)) or "none"
            message = f"no volume {mount['name']!r} in the job {pod_set.name!r}; it has {there}"
            yield _found(info, pod_set, container, f"volumeMounts[{index}].name", message)


def _check_resources(info: Info, pod_set: PodSet, container: Container) -> Iterator[Problem]:
    """Merging two resources of which each was right alone can make what is not."""
    limits = container.resources.get("limits") or {}
    for name, amount in (container.resources.get("requests") or {}).items():
        if name not in limits:
            continue
        request, limit = parse_quantity(amount), parse_quantity(limits[name])
        extended = "/" in name and not name.startswith("kubernetes.io/")
        if request > limit or (extended and request != limit):
            wanted = "must equal" if extended else "must not exceed"
            message = (
                f"container {container.name!r}: requests of {name} ({amount}) {wanted} its limits ({limits[name]})"
            )
            yield _found(info, pod_set, container, "resources", message)
    pod_claims = [claim.get("name") for claim in pod_set.pod_spec.get("resourceClaims") or ()]
    for claim in container.resources.get("claims") or ():
        if claim["name"] not in pod_claims:
            message = f"container {container.name!r}: no resource claim {claim['name']!r} in the job {pod_set.name!r}"
            yield _found(info, pod_set, container, "resources", message)


def _found(info: Info, pod_set: PodSet, container: Container, field: str, message: str) -> Problem:
    """Say what is wrong with a container's field where it was written: in the runtime, in the TrainJob, in a patch."""
    top = field.split("[")[0].split(".")[0]
    path, in_runtime = _in_runtime(info, pod_set, container)
    if container.manifest.get(top) == in_runtime.get(top):
        return info.runtime_problem(f"{path}.{field}", message)
    written = {"image": "spec.trainer.image", "resources": "spec.trainer.resourcesPerNode"}
    return info.problem(written.get(top, "spec.runtimePatches"), f"with runtime {info.runtime.name!r}, {message}")


def _in_runtime(info: Info, pod_set: PodSet, container: Container) -> tuple[str, Manifest]:
    """Find a container as the runtime has it, and its path there; patches may have put it in another place."""
    for number, job in enumerate(info.runtime.replicated_jobs):
        if job["name"] != pod_set.name:
            continue
        pod_spec = job["template"]["spec"]["template"]["spec"]
        for field in ("containers", "initContainers"):
            for index, found in enumerate(pod_spec.get(field) or ()):
                if found["name"] == container.name:
                    jobs = f"spec.template.spec.replicatedJobs[{number}]"
                    return f"{jobs}.template.spec.template.spec.{field}[{index}]", found
    return "spec.template.spec.replicatedJobs", {}
