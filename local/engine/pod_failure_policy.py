"""A Job's podFailurePolicy: what one failed pod means for its Job.

Rules are tried in order, the first that matches decides; a pod that no rule matches is counted, as if there were no
policy. https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from trainyard.local.engine.container_run import ContainerRun

Action = Literal["FailJob", "FailIndex", "Ignore", "Count"]
ACTIONS: Final = ("FailJob", "FailIndex", "Ignore", "Count")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What is to be done."""

    action: Action = "Count"
    message: str = ""
    """Which rule matched, in Kubernetes' words; empty when none did."""


def judge(
    policy: Mapping[str, Any] | None,
    *,
    namespace: str,
    pod: str,
    containers: Sequence[ContainerRun],
    conditions: Mapping[str, str],
) -> Verdict:
    """Find the first rule that matches a failed pod; `conditions` maps type to status."""
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        action: Action = rule["action"]
        if "onExitCodes" in rule:
            container = _matching_container(rule["onExitCodes"], containers)
            if container is not None:
                message = (
                    f"Container {container.name} for pod {namespace}/{pod} failed with exit code "
                    f"{container.exit_code} matching {action} rule at index {index}"
                )
                return Verdict(action=action, message=message)
        for pattern in rule.get("onPodConditions") or ():
            if conditions.get(pattern["type"]) == pattern.get("status", "True"):
                message = (
                    f"Pod {namespace}/{pod} has condition {pattern['type']} matching {action} rule at index {index}"
                )
                return Verdict(action=action, message=message)
    return Verdict()


def _matching_container(requirement: Mapping[str, Any], containers: Sequence[ContainerRun]) -> ContainerRun | None:
    only, values = requirement.get("containerName"), requirement["values"]
    for container in containers:
        if only is not None and container.name != only:
            continue
        if container.state != "terminated" or not container.exit_code:
            continue  # Kubernetes never matches code 0, also not with NotIn.
        if (container.exit_code in values) == (requirement["operator"] == "In"):
            return container
    return None
