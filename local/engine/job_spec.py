"""A Job's spec with Kubernetes' defaults, read once from the manifest.

Problems are collected as `path: expected ..., got ...`; `job_set_spec` raises them all together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainyard.local.engine.pod_failure_policy import ACTIONS

BACKOFF_LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
FAILED_INDEXES: Final = "FailedIndexes"
MAX_FAILED_INDEXES: Final = "MaxFailedIndexesExceeded"
POD_FAILURE_POLICY: Final = "PodFailurePolicy"
FAILURE_REASONS: Final = (
    BACKOFF_LIMIT_EXCEEDED,
    DEADLINE_EXCEEDED,
    FAILED_INDEXES,
    MAX_FAILED_INDEXES,
    POD_FAILURE_POLICY,
)
"""Why a Job is Failed."""

DEFAULT_BACKOFF_LIMIT: Final = 6
NO_LIMIT: Final = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class SuccessRule:
    """One rule of a Job's successPolicy."""

    indexes: frozenset[int] | None
    """Which indexes must succeed, or may be counted; None means all."""
    count: int | None
    """How many of them; None means every one of `indexes`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSpec:
    """What decides over a Job's life."""

    parallelism: int
    completions: int | None
    """None: a work queue, done when one pod succeeded and all have ended."""
    indexed: bool
    backoff_limit: int
    """Failed pods (or container restarts, with OnFailure) that are tolerated."""
    backoff_limit_per_index: int | None
    max_failed_indexes: int | None
    active_deadline_seconds: float | None
    pod_failure_policy: Mapping[str, Any] | None
    success_rules: tuple[SuccessRule, ...]
    restart_policy: str

    @property
    def slots(self) -> int:
        """Count the places that pods fill: the completion indexes, or as many pods as run at once."""
        return self.parallelism if self.completions is None else self.completions

    @property
    def pods_at_once(self) -> int:
        """Count the pods that make the Job ready when they are."""
        return min(self.parallelism, self.slots)


def read_job_spec(raw: Mapping[str, Any], path: str, problems: list[str]) -> JobSpec:
    """Read a Job's spec; what is wrong is added to `problems`, with its path."""

    def whole(field: str, default: int | None, minimum: int = 0) -> int | None:
        value = raw.get(field)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            problems.append(f"{path}.{field}: expected an integer of at least {minimum}, got {value!r}")
            return default
        return value

    mode = raw.get("completionMode") or "Indexed"
    if mode not in ("Indexed", "NonIndexed"):
        problems.append(f"{path}.completionMode: expected Indexed or NonIndexed, got {mode!r}")
    indexed = mode == "Indexed"
    parallelism = whole("parallelism", 1)
    completions = whole("completions", None)
    assert parallelism is not None
    if completions is None and (indexed or "parallelism" not in raw):
        completions = parallelism if indexed else 1
    per_index = whole("backoffLimitPerIndex", None)
    backoff_limit = whole("backoffLimit", DEFAULT_BACKOFF_LIMIT if per_index is None else NO_LIMIT)
    assert backoff_limit is not None
    pod_spec = (raw.get("template") or {}).get("spec") or {}
    restart_policy = pod_spec.get("restartPolicy") or "OnFailure"
    if restart_policy not in ("Never", "OnFailure"):
        problems.append(
            f"{path}.template.spec.restartPolicy: expected Never or OnFailure (a Job ends), got {restart_policy!r}"
        )
    if (raw.get("podFailurePolicy") or per_index is not None) and restart_policy != "Never":
        field = "podFailurePolicy" if raw.get("podFailurePolicy") else "backoffLimitPerIndex"
        problems.append(f"{path}.{field}: needs restartPolicy Never in the pod template, got {restart_policy!r}")
    if per_index is not None and not indexed:
        problems.append(f"{path}.backoffLimitPerIndex: needs completionMode Indexed, got {mode!r}")
    _check_containers(pod_spec, f"{path}.template.spec", problems)
    _check_failure_policy(raw.get("podFailurePolicy"), f"{path}.podFailurePolicy", pod_spec, per_index, problems)
    deadline = whole("activeDeadlineSeconds", None, minimum=1)
    return JobSpec(
        parallelism=parallelism,
        completions=completions,
        indexed=indexed,
        backoff_limit=backoff_limit,
        backoff_limit_per_index=per_index,
        max_failed_indexes=whole("maxFailedIndexes", None),
        active_deadline_seconds=None if deadline is None else float(deadline),
        pod_failure_policy=raw.get("podFailurePolicy"),
        success_rules=_success_rules(raw.get("successPolicy"), f"{path}.successPolicy", problems),
        restart_policy=restart_policy,
    )


def _check_containers(pod_spec: Mapping[str, Any], path: str, problems: list[str]) -> None:
    if not pod_spec.get("containers"):
        problems.append(f"{path}.containers: expected at least one container, got none")
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(pod_spec.get(field) or ()):
            name = container.get("name") if isinstance(container, Mapping) else None
            if not isinstance(name, str) or not name:
                problems.append(f"{path}.{field}[{index}].name: required, not set")
            elif name in names:
                problems.append(f"{path}.{field}[{index}].name: {name!r} is there twice")
            else:
                names.add(name)


def _check_failure_policy(
    policy: Mapping[str, Any] | None, path: str, pod_spec: Mapping[str, Any], per_index: int | None, problems: list[str]
) -> None:
    names = {
        container.get("name")
        for field in ("initContainers", "containers")
        for container in pod_spec.get(field) or ()
        if isinstance(container, Mapping)
    }
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        here = f"{path}.rules[{index}]"
        action = rule.get("action")
        if action not in ACTIONS:
            problems.append(f"{here}.action: expected one of {', '.join(ACTIONS)}, got {action!r}")
        elif action == "FailIndex" and per_index is None:
            problems.append(f"{here}.action: FailIndex needs backoffLimitPerIndex, which is not set")
        if ("onExitCodes" in rule) == bool(rule.get("onPodConditions")):
            problems.append(f"{here}: expected exactly one of onExitCodes and onPodConditions")
        codes = rule.get("onExitCodes")
        if codes is None:
            continue
        if codes.get("operator") not in ("In", "NotIn"):
            problems.append(f"{here}.onExitCodes.operator: expected In or NotIn, got {codes.get('operator')!r}")
        if not codes.get("values") or not all(isinstance(value, int) for value in codes["values"]):
            problems.append(f"{here}.onExitCodes.values: expected exit codes, got {codes.get('values')!r}")
        if codes.get("containerName") is not None and codes["containerName"] not in names:
            problems.append(f"{here}.onExitCodes.containerName: the pod has no container {codes['containerName']!r}")


def _success_rules(policy: Mapping[str, Any] | None, path: str, problems: list[str]) -> tuple[SuccessRule, ...]:
    rules = []
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        text = rule.get("succeededIndexes")
        try:
            indexes = None if text is None else _indexes(str(text))
        except ValueError:
            problems.append(f"{path}.rules[{index}].succeededIndexes: expected indexes such as '0,2-4', got {text!r}")
            indexes = None
        rules.append(SuccessRule(indexes=indexes, count=rule.get("succeededCount")))
    return tuple(rules)


def _indexes(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
