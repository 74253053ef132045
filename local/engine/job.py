"""One Job: as many pods as parallelism and completions say, replaced when they fail, until it is complete or failed.

Semantics are those of Kubernetes' Job controller: an index is done once, failed pods count against backoffLimit after
podFailurePolicy has been asked, replacements wait with a doubling delay, a failing Job first ends its other pods and is
Failed when they are gone. Suspending ends the pods without counting them.

A NonIndexed Job fills numbered slots in the same way; its pods do not learn their number.
"""

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from trainyard.local.engine import clock, pod_failure_policy
from trainyard.local.engine.job_spec import (
    BACKOFF_LIMIT_EXCEEDED,
    DEADLINE_EXCEEDED,
    FAILED_INDEXES,
    MAX_FAILED_INDEXES,
    POD_FAILURE_POLICY,
    JobSpec,
)
from trainyard.local.engine.loop import Loop, Timer
from trainyard.local.engine.pod_lifecycle import PodRun
from trainyard.local.engine.timing import Timing

COMPLETIONS_REACHED: Final = "CompletionsReached"
SUCCESS_POLICY: Final = "SuccessPolicy"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEnd:
    """A Job's Complete or Failed condition."""

    succeeded: bool
    reason: str
    message: str
    time: datetime


class JobWorld(Protocol):
    """What a Job needs around it; the engine is one."""

    @property
    def loop(self) -> Loop:
        """The event loop."""

    @property
    def timing(self) -> Timing:
        """Delays."""

    def create_pod(self, job: "JobRun", slot: int) -> PodRun:
        """Make the pod of a slot, not started yet."""

    def event(self, kind: str, reason: str, about: str, message: str) -> None:
        """Record an event."""

    def changed(self) -> None:
        """Hear that something changed."""


class JobRun:
    """One Job of the JobSet's current attempt, or one that is on its way out."""

    def __init__(
        self, *, name: str, namespace: str, replicated_job: str, index: int, spec: JobSpec, world: JobWorld
    ) -> None:
        self.name = name
        self.replicated_job = replicated_job
        self.index = index
        self.spec = spec
        self.end: JobEnd | None = None
        self.suspended = False
        self.succeeded_slots: set[int] = set()
        self.failed_slots: set[int] = set()
        self._namespace = namespace
        self._world = world
        self._pods: dict[int, PodRun] = {}
        self._target: JobEnd | None = None
        self._deleted = False
        self._failed_pods = 0
        self._failures_of_slot: dict[int, int] = {}
        self._failures_in_a_row = 0
        self._not_before = 0.0
        self._create_timer: Timer | None = None
        self._deadline_timer: Timer | None = None
        self._deadline_passed = False

    @property
    def pods(self) -> list[PodRun]:
        """List the pods that have not ended."""
        return list(self._pods.values())

    @property
    def gone(self) -> bool:
        """Say whether it was deleted and its pods have ended."""
        return self._deleted and not self._pods

    @property
    def active(self) -> int:
        """Count the pods that are pending or running and not being ended."""
        return sum(1 for pod in self._pods.values() if not pod.stopping)

    @property
    def is_ready(self) -> bool:
        """Say whether as many pods are ready or done as run at once."""
        ready = sum(1 for pod in self._pods.values() if pod.ready)
        return len(self.succeeded_slots) + ready >= self.spec.pods_at_once

    def suspend(self) -> None:
        """End the pods without counting them; `resume` starts them anew."""
        if self.end is None and not self.suspended:
            self.suspended = True
            self._cancel_timers()
            self._world.event("Normal", "Suspended", f"Job/{self.name}", "Job suspended")
            self._world.changed()

    def resume(self) -> None:
        """Let pods be made again; the deadline starts over."""
        if self.suspended:
            self.suspended = False
            self._not_before = 0.0
            self._world.event("Normal", "Resumed", f"Job/{self.name}", "Job resumed")
            self._world.changed()

    def delete(self, grace_seconds: float | None = None) -> None:
        """End the pods; it is `gone` when they are."""
        self._deleted = True
        self._cancel_timers()
        for pod in self._pods.values():
            pod.stop(grace_seconds)

    def kill(self) -> None:
        """End the pods at once."""
        self._deleted = True
        self._cancel_timers()
        for pod in self._pods.values():
            pod.kill()

    def sync(self) -> None:
        """Take in what happened to the pods and do what is due."""
        self._take_in_finished_pods()
        if self._deleted or self.end is not None:
            return
        if self._target is None:
            self._target = self._decide()
        if self._target is not None:
            self._cancel_timers()
            self._stop_pods()
            if not self._pods:
                self.end = self._target
                kind = "Normal" if self.end.succeeded else "Warning"
                reason = "Completed" if self.end.succeeded else self.end.reason
                message = "Job completed" if self.end.succeeded else self.end.message
                self._world.event(kind, reason, f"Job/{self.name}", message)
                self._world.changed()
            return
        if self.suspended:
            self._stop_pods()
            return
        self._start_deadline()
        self._create_pods()

    def _stop_pods(self) -> None:
        for pod in list(self._pods.values()):
            if not pod.stopping:
                pod.stop()

    def _cancel_timers(self) -> None:
        for timer in (self._create_timer, self._deadline_timer):
            if timer is not None:
                timer.cancel()
        self._create_timer = self._deadline_timer = None

    # -- what happened --------------------------------------------------------------------------------------------

    def _take_in_finished_pods(self) -> None:
        for slot, pod in list(self._pods.items()):
            if not pod.finished:
                continue
            del self._pods[slot]
            if pod.phase == "Succeeded":
                self.succeeded_slots.add(slot)
                self._failures_in_a_row = 0
            elif not pod.deleted:
                self._take_in_failure(slot, pod)

    def _take_in_failure(self, slot: int, pod: PodRun) -> None:
        self._failures_in_a_row += 1
        failures = self._failures_in_a_row
        verdict = pod_failure_policy.judge(
            self.spec.pod_failure_policy,
            namespace=self._namespace,
            pod=pod.name,
            containers=pod.containers,
            conditions={},
        )
        if verdict.action == "FailJob":
            if self._target is None:
                self._target = self._failed(POD_FAILURE_POLICY, verdict.message)
        elif verdict.action == "FailIndex":
            self.failed_slots.add(slot)
            self._failed_pods += 1
        elif verdict.action == "Count":
            self._failed_pods += 1
            self._failures_of_slot[slot] = failures = self._failures_of_slot.get(slot, 0) + 1
            limit = self.spec.backoff_limit_per_index
            if limit is not None and failures > limit:
                self.failed_slots.add(slot)
            if limit is None:
                failures = self._failures_in_a_row
        self._not_before = time.monotonic() + self._world.timing.backoff(failures)

    def _failed(self, reason: str, message: str) -> JobEnd:
        return JobEnd(succeeded=False, reason=reason, message=message, time=clock.now())

    # -- what follows ---------------------------------------------------------------------------------------------

    def _decide(self) -> JobEnd | None:
        """Say how the Job ends, when it is clear."""
        spec = self.spec
        if self._deadline_passed:
            return self._failed(DEADLINE_EXCEEDED, "Job was active longer than specified deadline")
        if self._failed_pods > spec.backoff_limit or self._restarts_exceed_limit():
            return self._failed(BACKOFF_LIMIT_EXCEEDED, "Job has reached the specified backoff limit")
        if spec.max_failed_indexes is not None and len(self.failed_slots) > spec.max_failed_indexes:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return self._failed(MAX_FAILED_INDEXES, message)
        for number, rule in enumerate(spec.success_rules):
            counted = self.succeeded_slots if rule.indexes is None else self.succeeded_slots & rule.indexes
            needed = rule.count if rule.count is not None else len(rule.indexes or ())
            if needed and len(counted) >= needed:
                message = f"Matched rules at index {number}"
                return JobEnd(succeeded=True, reason=SUCCESS_POLICY, message=message, time=clock.now())
        if self._all_done():
            if self.failed_slots:
                return self._failed(FAILED_INDEXES, "Job has failed indexes")
            message = "Reached expected number of succeeded pods"
            return JobEnd(succeeded=True, reason=COMPLETIONS_REACHED, message=message, time=clock.now())
        return None

    def _restarts_exceed_limit(self) -> bool:
        if self.spec.restart_policy != "OnFailure":
            return False
        restarts = sum(pod.restart_count for pod in self._pods.values())
        return restarts > 0 if self.spec.backoff_limit == 0 else restarts >= self.spec.backoff_limit

    def _all_done(self) -> bool:
        if self.spec.completions is None:
            return bool(self.succeeded_slots) and not self._pods
        return len(self.succeeded_slots | self.failed_slots) >= self.spec.completions

    def _create_pods(self) -> None:
        if self.spec.completions is None and self.succeeded_slots:
            return
        done = self.succeeded_slots | self.failed_slots
        waiting = [slot for slot in range(self.spec.slots) if slot not in done and slot not in self._pods]
        room = self.spec.parallelism - len(self._pods)
        if not waiting or room <= 0:
            return
        delay = self._not_before - time.monotonic()
        if delay > 0:
            if self._create_timer is None:
                self._create_timer = self._world.loop.call_later(delay, self._create_timer_passed)
            return
        for slot in waiting[:room]:
            pod = self._world.create_pod(self, slot)
            self._pods[slot] = pod
            self._world.event("Normal", "SuccessfulCreate", f"Job/{self.name}", f"Created pod: {pod.name}")
            pod.start()

    def _create_timer_passed(self) -> None:
        self._create_timer = None
        self._world.changed()

    def _start_deadline(self) -> None:
        if self.spec.active_deadline_seconds is not None and self._deadline_timer is None:
            self._deadline_timer = self._world.loop.call_later(
                self.spec.active_deadline_seconds, self._deadline_timer_passed
            )

    def _deadline_timer_passed(self) -> None:
        self._deadline_passed = True
        self._world.changed()
