"""What a runtime must be like, whatever TrainJob uses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.contract import names
from trainyard.controller.api.problem import Problem
from trainyard.controller.api.runtime import TrainingRuntime
from trainyard.controller.container import Manifest
from trainyard.controller.info import ancestor_of

_JOBS: Final = "spec.template.spec.replicatedJobs"


def check_runtime(runtime: TrainingRuntime) -> Iterator[Problem]:
    """Find what is wrong with the template's jobs."""
    for index, job in enumerate(runtime.replicated_jobs):
        for path, message in _check_job(job):
            yield runtime.problem(f"{_JOBS}[{index}]{path}", f"runtime {runtime.name!r}: {message}")


def _check_job(job: Manifest) -> Iterator[tuple[str, str]]:
    """Give (path below the job, message) for everything that is wrong with one replicated job."""
    ancestor = ancestor_of(job)
    pod_spec = job["template"]["spec"]["template"]["spec"]
    if ancestor is not None:
        if job.get("replicas", 1) != 1:
            yield ".replicas", f"always must be 1 for the {ancestor} job, got {job['replicas']}"
        required = names.CONTAINER_OF_ANCESTOR[ancestor]
        if all(container["name"] != required for container in pod_spec["containers"]):
            found = ", ".join(repr(container["name"]) for container in pod_spec["containers"])
            yield (
                ".template.spec.template.spec.containers",
                f"must have the container {required!r} in the {ancestor} job, got {found}",
            )
    if "podFailurePolicy" in job["template"]["spec"] and pod_spec.get("restartPolicy") != "Never":
        # Kubernetes refuses it; JobSet makes an absent restartPolicy OnFailure.
        found = pod_spec.get("restartPolicy", "nothing, which means OnFailure")
        yield ".template.spec.template.spec.restartPolicy", f"must be Never with a podFailurePolicy, got {found}"
