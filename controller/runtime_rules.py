"""What a runtime must be like, whatever TrainJob uses it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainyard.contract import names
from trainyard.controller.api.problem import Problem
from trainyard.controller.api.runtime import TrainingRuntime
from trainyard.controller.container import Manifest
from trainyard.controller.info import ancestor_of

_JOBS: Final = "spec.template.spec.replicatedJobs"
_RULES: Final = "spec.template.spec.failurePolicy.rules"
_RULE_NAME: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?")
"""JobSet's webhook has the same rule; mostly it is a hyphen that it refuses."""


def check_runtime(runtime: TrainingRuntime) -> Iterator[Problem]:
    """Find what is wrong with the template's jobs."""
    for index, job in enumerate(runtime.replicated_jobs):
        for path, message in _check_job(job):
            yield runtime.problem(f"{_JOBS}[{index}]{path}", f"runtime {runtime.name!r}: {message}")
    failure_policy = runtime.spec.template.spec.get("failurePolicy") or {}
    for index, rule in enumerate(failure_policy.get("rules") or ()):
        if "name" in rule and _RULE_NAME.fullmatch(rule["name"]) is None:
            yield runtime.problem(
                f"{_RULES}[{index}].name",
                f"runtime {runtime.name!r}: expected a letter, then letters, digits and '_,:', got {rule['name']!r}",
            )


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
