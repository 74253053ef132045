"""Steps: a job's pods as people count them, from the planned JobSet and what pods.json says. Pure.

A step is named as the SDK names it: `dataset-initializer`, `model-initializer`, `node-0`, `node-1`; any other
replicated job is called by its name, with a number where it has several pods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainyard.contract import exit_codes, labels, names
from trainyard.contract.termination import TerminationMessage
from trainyard.entrypoints.cli import view
from trainyard.entrypoints.cli.view import StepView

_PHASES = {
    "Pending": view.PENDING,
    "Running": view.RUNNING,
    "Succeeded": view.SUCCEEDED,
    "Failed": view.FAILED,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One pod that the plan asks for, and the newest pod that there was for it."""

    name: str
    """`node-0`."""
    ancestor: str | None
    """What it does for the TrainJob: `dataset-initializer`, `model-initializer`, `trainer`; None for a helper."""
    waits_for: tuple[str, ...]
    """Replicated jobs that must be ready or complete first."""
    pod: Mapping[str, Any] | None
    """Its entry of pods.json; None before it is created."""

    @property
    def containers(self) -> tuple[Mapping[str, Any], ...]:
        """Its containers, init containers first."""
        return () if self.pod is None else tuple(self.pod.get("containers", ()))

    @property
    def state(self) -> str:
        """One of the states of `view`."""
        return view.WAITING if self.pod is None else _PHASES.get(str(self.pod.get("phase")), view.PENDING)

    @property
    def restarts(self) -> int:
        """How often it was tried again: earlier pods and restarted containers."""
        if self.pod is None:
            return 0
        return int(self.pod.get("attempt", 0)) + sum(int(c.get("restartCount", 0)) for c in self.containers)

    def seconds(self, now: datetime) -> float | None:
        """How long it has run, or ran; None before its first container started."""
        starts = [start for c in self.containers if (start := parse_time(c.get("startedAt"))) is not None]
        if not starts or self.pod is None:
            return None
        end = parse_time(self.pod.get("finishedAt"))
        return ((now if end is None else end) - min(starts)).total_seconds()

    def failure(self) -> "Failure | None":
        """Say why it failed, if it did: its first container that ended with a code other than 0."""
        if self.state != view.FAILED:
            return None
        failed = [c for c in self.containers if c.get("exitCode") not in (None, 0)]
        failed.sort(key=lambda container: str(container.get("finishedAt", "")))
        return Failure.of(self, failed[0]) if failed else Failure.of(self, None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why a step failed."""

    step: str
    """`node-0`."""
    pod: str
    """The pod's name; names its logs."""
    container: str | None
    """The container that failed; None where the pod failed without one (it was deleted, or a deadline passed)."""
    exit_code: int | None
    """The container's exit code."""
    reason: str
    """CamelCase: `SourceNotFound`, `OOMKilled`."""
    message: str
    """What the container, or the executor, said."""
    time: datetime | None
    """When it ended."""

    @classmethod
    def of(cls, step: Step, container: Mapping[str, Any] | None) -> "Failure":
        """Read a failed container's status; its termination message, where it is one of ours, says it best."""
        assert step.pod is not None
        source = step.pod if container is None else container
        said = str(source.get("message", ""))
        ours = TerminationMessage.parse(said)
        return cls(
            step=step.name,
            pod=str(step.pod.get("name", "")),
            container=None if container is None else str(container["name"]),
            exit_code=None if container is None else int(container["exitCode"]),
            reason=ours.reason if ours is not None else str(source.get("reason", "")),
            message=(ours.message if ours is not None else said).strip(),
            time=parse_time(source.get("finishedAt")),
        )

    def to_text(self) -> str:
        """Say it in a line: `exit code 66: SourceNotFound: the source ... does not exist`."""
        parts = []
        if self.exit_code is not None:
            parts.append(f"exit code {self.exit_code} ({exit_codes.describe(self.exit_code)})")
        if self.reason not in ("", "Error"):
            parts.append(self.reason)
        if self.message and self.message != exit_codes.describe(self.exit_code or 0):
            parts.append(" ".join(self.message.split()))
        return ": ".join(parts) or "failed"


def steps_of(job_set: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """List the steps in the order of the JobSet's replicated jobs."""
    newest: dict[tuple[str, int, int], Mapping[str, Any]] = {}
    for pod in pods:
        key = (str(pod.get("replicatedJob")), int(pod.get("jobIndex") or 0), int(pod.get("index") or 0))
        old = newest.get(key)
        if old is None or _age(pod) >= _age(old):
            newest[key] = pod
    steps: list[Step] = []
    for job in job_set.get("spec", {}).get("replicatedJobs", ()):
        name = str(job["name"])
        template = job.get("template") or {}
        spec = template.get("spec") or {}
        ancestor = ((template.get("metadata") or {}).get("labels") or {}).get(labels.ANCESTOR_STEP)
        replicas = int(job.get("replicas", 1))
        completions = _completions(spec)
        waits_for = tuple(str(dependency["name"]) for dependency in job.get("dependsOn") or ())
        steps.extend(
            Step(
                name=_step_name(name, replica * completions + index, replicas * completions),
                ancestor=ancestor,
                waits_for=waits_for,
                pod=newest.get((name, replica, index)),
            )
            for replica in range(replicas)
            for index in range(completions)
        )
    return tuple(steps)


def _completions(spec: Mapping[str, Any]) -> int:
    parallelism = spec.get("parallelism")
    completions = spec.get("completions")
    if completions is None:
        completions = 1 if parallelism is None else parallelism
    return int(completions)


def _step_name(replicated_job: str, number: int, count: int) -> str:
    return f"{replicated_job}-{number}" if count > 1 or replicated_job == names.NODE else replicated_job


def _age(pod: Mapping[str, Any]) -> tuple[str, int]:
    return str(pod.get("createdAt", "")), int(pod.get("attempt", 0))


def parse_time(text: Any) -> datetime | None:
    """Read a time of a status file; None for none."""
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None


def to_view(step: Step, now: datetime, progress: Mapping[str, Any] | None) -> StepView:
    """Make the view of a step; `progress` is a trainerStatus or None."""
    reported = progress or {}
    failure = step.failure()
    note = ""
    if failure is not None:
        note = failure.to_text()
    elif step.state == view.WAITING and step.waits_for:
        note = f"waits for {', '.join(step.waits_for)}"
    elif step.pod is not None and step.state == view.PENDING:
        note = str(step.pod.get("message") or "")
    return StepView(
        name=step.name,
        state=step.state,
        seconds=step.seconds(now),
        percent=reported.get("progressPercentage"),
        remaining_seconds=reported.get("estimatedRemainingSeconds"),
        metrics={str(m.get("name")): str(m.get("value")) for m in reported.get("metrics") or ()},
        restarts=step.restarts,
        note=note,
    )
