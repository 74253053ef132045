"""A JobSet manifest with JobSet's defaults, read once into typed values.

What the JobSet webhooks refuse is refused here, all problems at once, each with its path: a dependsOn that names an
unknown or later job (so also a cycle), dependsOn together with startupPolicy InOrder, unknown targets, bad patterns.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainyard.contract import labels, names
from trainyard.contract.errors import ConfigError
from trainyard.local.engine.job_spec import FAILURE_REASONS, JobSpec, read_job_spec

FAIL_JOB_SET: Final = "FailJobSet"
RESTART_JOB_SET: Final = "RestartJobSet"
RESTART_JOB_SET_UNCOUNTED: Final = "RestartJobSetAndIgnoreMaxRestarts"
RESTART_JOB: Final = "RestartJob"
RESTART_JOB_UNCOUNTED: Final = "RestartJobAndIgnoreMaxRestarts"
_ACTIONS: Final = (FAIL_JOB_SET, RESTART_JOB_SET, RESTART_JOB_SET_UNCOUNTED, RESTART_JOB, RESTART_JOB_UNCOUNTED)
_LONGEST_NAME: Final = 63
_MOST_DEPENDENCIES: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Dependency:
    """One entry of dependsOn."""

    name: str
    status: str
    """`Complete`: all its Jobs succeeded. `Ready`: all its Jobs are ready, succeeded or failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicatedJob:
    """One replicated job."""

    name: str
    group: str
    replicas: int
    depends_on: tuple[Dependency, ...]
    job: JobSpec
    template: Mapping[str, Any]
    """The Job template: metadata and spec."""

    @property
    def ancestor(self) -> str | None:
        """Give the step of the TrainJob that it is labelled with."""
        value = ((self.template.get("metadata") or {}).get("labels") or {}).get(labels.ANCESTOR_STEP)
        return None if value is None else str(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureRule:
    """One rule of the JobSet's failurePolicy."""

    name: str
    action: str
    reasons: tuple[str, ...]
    patterns: tuple[str, ...]
    targets: tuple[str, ...]

    def matches(self, *, replicated_job: str, reason: str, message: str) -> bool:
        """Say whether a failed Job falls under the rule."""
        return (
            (not self.reasons or reason in self.reasons)
            and (not self.patterns or any(re.search(pattern, message) for pattern in self.patterns))
            and (not self.targets or replicated_job in self.targets)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class FailurePolicy:
    """What happens when a Job has failed."""

    max_restarts: int
    rules: tuple[FailureRule, ...]
    blocking: bool
    """Whether no Job is made anew before all old ones have ended (BlockingRecreate)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSetSpec:
    """A whole JobSet."""

    name: str
    namespace: str
    replicated_jobs: tuple[ReplicatedJob, ...]
    success_operator: str
    success_targets: tuple[str, ...]
    failure_policy: FailurePolicy | None
    in_order: bool
    suspended: bool
    ttl_seconds: int | None
    subdomain: str
    """Empty when DNS host names are switched off."""
    coordinator: str | None
    claims: tuple[tuple[str, bool], ...]
    """Templates of volumeClaimPolicies: (name, whether the claim is explicitly deleted with the JobSet)."""

    def jobs_needed(self) -> int:
        """Count the Jobs that must succeed for the JobSet to be complete."""
        if self.success_operator == "Any":
            return 1
        return sum(job.replicas for job in self.replicated_jobs if self.counts_for_success(job.name))

    def counts_for_success(self, replicated_job: str) -> bool:
        """Say whether the successPolicy looks at a replicated job."""
        return not self.success_targets or replicated_job in self.success_targets


def read_job_set(manifest: Mapping[str, Any]) -> JobSetSpec:
    """Read a JobSet; raises one ConfigError with everything that is wrong."""
    problems: list[str] = []
    metadata = manifest.get("metadata") or {}
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "default")
    spec = manifest.get("spec") or {}
    jobs = _replicated_jobs(spec, name, problems)
    known = [job.name for job in jobs]
    success = spec.get("successPolicy") or {}
    operator = success.get("operator") or "All"
    if operator not in ("All", "Any"):
        problems.append(f"spec.successPolicy.operator: expected All or Any, got {operator!r}")
    targets = _targets(success, "spec.successPolicy", known, problems)
    order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") or "AnyOrder"
    if order not in ("AnyOrder", "InOrder"):
        problems.append(f"spec.startupPolicy.startupPolicyOrder: expected AnyOrder or InOrder, got {order!r}")
    for index, job in enumerate(jobs):
        if order == "InOrder" and job.depends_on:
            problems.append(f"spec.replicatedJobs[{index}].dependsOn: cannot be used with startupPolicy InOrder")
    network = spec.get("network") or {}
    dns = network.get("enableDNSHostnames")
    subdomain = str(network.get("subdomain") or name) if dns is None or dns else ""
    failure_policy = _failure_policy(spec.get("failurePolicy"), known, problems)
    claims = tuple(
        (str(template["metadata"]["name"]), (policy.get("retentionPolicy") or {}).get("whenDeleted") == "Delete")
        for policy in spec.get("volumeClaimPolicies") or ()
        for template in policy.get("templates") or ()
    )
    coordinator = None
    if spec.get("coordinator"):
        raw = spec["coordinator"]
        if raw.get("replicatedJob") not in known:
            problems.append(f"spec.coordinator.replicatedJob: no replicated job {raw.get('replicatedJob')!r}")
        coordinator = (
            names.pod_hostname(name, str(raw.get("replicatedJob")), raw.get("jobIndex") or 0, raw.get("podIndex") or 0)
            + f".{subdomain}"
        )
    if problems:
        raise ConfigError(f"JobSet {name!r}: " + "; ".join(problems))
    ttl = spec.get("ttlSecondsAfterFinished")
    return JobSetSpec(
        name=name,
        namespace=namespace,
        replicated_jobs=jobs,
        success_operator=operator,
        success_targets=targets,
        failure_policy=failure_policy,
        in_order=order == "InOrder",
        suspended=bool(spec.get("suspend")),
        ttl_seconds=None if ttl is None else int(ttl),
        subdomain=subdomain,
        coordinator=coordinator,
        claims=claims,
    )


def _replicated_jobs(spec: Mapping[str, Any], job_set: str, problems: list[str]) -> tuple[ReplicatedJob, ...]:
    found: list[ReplicatedJob] = []
    every_name = [raw.get("name") for raw in spec.get("replicatedJobs") or ()]
    for index, raw in enumerate(spec.get("replicatedJobs") or ()):
        path = f"spec.replicatedJobs[{index}]"
        name = raw.get("name")
        if not isinstance(name, str) or not name:
            problems.append(f"{path}.name: required, not set")
            continue
        earlier = [job.name for job in found]
        if name in earlier:
            problems.append(f"{path}.name: {name!r} is there twice")
        template = raw.get("template") or {}
        job = read_job_spec(template.get("spec") or {}, f"{path}.template.spec", problems)
        replicas = raw.get("replicas", 1)
        if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
            problems.append(f"{path}.replicas: expected an integer of at least 0, got {replicas!r}")
            replicas = 1
        longest = names.pod_hostname(job_set, name, max(0, replicas - 1), max(0, job.slots - 1))
        if len(longest) > _LONGEST_NAME:
            problems.append(
                f"{path}.name: the pod name {longest!r} has {len(longest)} characters, at most {_LONGEST_NAME} are "
                "allowed; give the job a shorter name"
            )
        found.append(
            ReplicatedJob(
                name=name,
                group=str(raw.get("groupName") or "default"),
                replicas=replicas,
                depends_on=_depends_on(raw, path, earlier, every_name, problems),
                job=job,
                template=template,
            )
        )
    return tuple(found)


def _depends_on(
    raw: Mapping[str, Any], path: str, earlier: list[str], every_name: list[Any], problems: list[str]
) -> tuple[Dependency, ...]:
    entries = raw.get("dependsOn") or ()
    if len(entries) > _MOST_DEPENDENCIES:
        problems.append(f"{path}.dependsOn: expected at most {_MOST_DEPENDENCIES} entries, got {len(entries)}")
    found = []
    for number, entry in enumerate(entries):
        here, name, status = f"{path}.dependsOn[{number}]", entry.get("name"), entry.get("status")
        if name not in every_name:
            problems.append(f"{here}.name: no replicated job {name!r}; there are {', '.join(map(str, every_name))}")
        elif name not in earlier:
            problems.append(
                f"{here}.name: {raw.get('name')!r} can only depend on jobs listed before it, {name!r} is not "
                "(a cycle, or the wrong order)"
            )
        if status not in ("Complete", "Ready"):
            problems.append(f"{here}.status: expected Complete or Ready, got {status!r}")
        found.append(Dependency(name=str(name), status=str(status)))
    return tuple(found)


def _targets(raw: Mapping[str, Any], path: str, known: list[str], problems: list[str]) -> tuple[str, ...]:
    targets = tuple(raw.get("targetReplicatedJobs") or ())
    problems.extend(
        f"{path}.targetReplicatedJobs: no replicated job {target!r}; there are {', '.join(known)}"
        for target in targets
        if target not in known
    )
    return targets


def _failure_policy(raw: Mapping[str, Any] | None, known: list[str], problems: list[str]) -> FailurePolicy | None:
    if raw is None:
        return None
    rules = []
    for index, rule in enumerate(raw.get("rules") or ()):
        path = f"spec.failurePolicy.rules[{index}]"
        if rule.get("action") not in _ACTIONS:
            problems.append(f"{path}.action: expected one of {', '.join(_ACTIONS)}, got {rule.get('action')!r}")
        problems.extend(
            f"{path}.onJobFailureReasons: expected some of {', '.join(FAILURE_REASONS)}, got {reason!r}"
            for reason in rule.get("onJobFailureReasons") or ()
            if reason not in FAILURE_REASONS
        )
        for pattern in rule.get("onJobFailureMessagePatterns") or ():
            try:
                re.compile(pattern)
            except re.error as error:
                problems.append(f"{path}.onJobFailureMessagePatterns: {pattern!r} is no regular expression: {error}")
        rules.append(
            FailureRule(
                name=str(rule.get("name") or f"failurePolicyRule{index}"),
                action=str(rule.get("action")),
                reasons=tuple(rule.get("onJobFailureReasons") or ()),
                patterns=tuple(rule.get("onJobFailureMessagePatterns") or ()),
                targets=_targets(rule, path, known, problems),
            )
        )
    strategy = raw.get("restartStrategy") or "Recreate"
    if strategy not in ("Recreate", "BlockingRecreate"):
        problems.append(f"spec.failurePolicy.restartStrategy: expected Recreate or BlockingRecreate, got {strategy!r}")
    max_restarts = raw.get("maxRestarts", 0)
    if not isinstance(max_restarts, int) or max_restarts < 0:
        problems.append(f"spec.failurePolicy.maxRestarts: expected an integer of at least 0, got {max_restarts!r}")
        max_restarts = 0
    return FailurePolicy(max_restarts=max_restarts, rules=tuple(rules), blocking=strategy == "BlockingRecreate")
