"""The TrainJob's own rules around its JobSet: phases, deadline, suspend and resume, stopping, and the final word.

The conditions are the controller's. A job that ends early (deadline, stopped) is Failed only when its pods are gone,
and the first reason stays.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from trainyard.contract import names
from trainyard.local.engine import blame, clock
from trainyard.local.engine.job import JobWorld
from trainyard.local.engine.job_set import JobSetEnd, JobSetRun
from trainyard.local.engine.job_set_spec import JobSetSpec
from trainyard.local.engine.job_spec import DEADLINE_EXCEEDED
from trainyard.local.engine.loop import Timer
from trainyard.local.engine.pod_book import PodBook
from trainyard.local.engine.status import REASON_INTERNAL, REASON_STOPPED, TrainJobStatus

_INITIALIZERS: Final = (names.DATASET_INITIALIZER, names.MODEL_INITIALIZER)


class TrainJobWorld(JobWorld, Protocol):
    """What a TrainJob needs around it; the engine is one."""

    @property
    def pods(self) -> PodBook:
        """All pods."""


class TrainJobRun:
    """One TrainJob."""

    def __init__(self, spec: JobSetSpec, train_job: Mapping[str, Any], world: TrainJobWorld) -> None:
        self.status = TrainJobStatus(created_at=clock.now())
        self.job_set = JobSetRun(spec, world)
        self._spec = spec
        self._train_job = train_job
        self._world = world
        self._about = f"TrainJob/{spec.name}"
        self._ending: Callable[[], None] | None = None
        self._stopping = False
        self._deadline: Timer | None = None

    @property
    def done(self) -> bool:
        """Say whether it is Complete or Failed and nothing of it runs."""
        return self.status.finished and self.job_set.idle

    @property
    def ending(self) -> bool:
        """Say whether its end is decided, though pods may still be ending."""
        return self._ending is not None

    @property
    def succeeded(self) -> bool:
        """Say whether it is Complete."""
        condition = self.status.conditions.get(names.COMPLETE)
        return condition is not None and condition.is_true

    def begin(self) -> None:
        """Start it, or show that it is suspended."""
        self._world.event("Normal", "Created", self._about, f"Created JobSet {self._spec.name}")
        if self.job_set.suspended:
            self._set_suspended(True)
        else:
            self._start_clock()

    def advance(self) -> None:
        """Take in what happened and do what is due."""
        self.job_set.reconcile()
        end = self.job_set.end
        if self._ending is None and end is not None:
            self._stop_clock()
            self._ending = lambda: self._follow(end)
        if self._ending is not None and not self.status.finished and self.job_set.idle:
            self._ending()

    def suspend(self) -> None:
        """End the pods until `resume`."""
        if not self.job_set.suspended and not self.ending:
            self._stop_clock()
            self._set_suspended(True)

    def resume(self) -> None:
        """Go on; the deadline starts over."""
        if self.job_set.suspended and not self.ending:
            self._set_suspended(False)
            self._start_clock()

    def stop(self, why: str) -> None:
        """End it within the grace period, as Failed; a second time, at once."""
        if self._stopping:
            self.job_set.kill()
            self._world.changed()
            return
        self._stopping = True
        self._world.event("Warning", "Stopping", self._about, why)
        self._end_early(REASON_STOPPED, f"TrainJob was {why}", why)

    def fail(self, why: str) -> None:
        """Mark it Failed at once: the executor cannot go on."""
        self._finish(names.FAILED, REASON_INTERNAL, why, why)

    def take_progress(self, step: str, message: Mapping[str, Any]) -> None:
        """Take a step's progress message."""
        self.status.progress[step] = message
        self._world.changed()

    def retrying(self, pod: str) -> None:
        """Say what a pod is made anew for."""
        failure = self._world.pods.last_failure(pod)
        if failure is not None:
            self.status.message = f"retrying after: {blame.sentence(failure)}"

    def to_dict(self) -> dict[str, Any]:
        """Build the TrainJob with its status."""
        jobs = self.job_set.jobs.values()
        initializers = {job.name for job in self._spec.replicated_jobs if job.ancestor in _INITIALIZERS}
        phase = self.status.phase(
            training=any(job.replicated_job not in initializers for job in jobs),
            initializing=any(job.replicated_job in initializers for job in jobs),
        )
        return {**self._train_job, "status": self.status.to_dict(jobs_status=self.job_set.statuses(), phase=phase)}

    # -- the clock ----------------------------------------------------------------------------------------------------

    def _start_clock(self) -> None:
        self.status.started_at = self.status.started_at or clock.now()
        seconds = (self._train_job.get("spec") or {}).get("activeDeadlineSeconds")
        if seconds:
            self._deadline = self._world.loop.call_later(float(seconds), self._deadline_passed)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _deadline_passed(self) -> None:
        message = f"stopped after activeDeadlineSeconds: {self._train_job['spec']['activeDeadlineSeconds']}"
        running = ", ".join(self._world.pods.running())
        message += f"; still running: {running}" if running else ""
        # As our controller does it: the JobSet is suspended and kept, so volumes and output survive.
        self.job_set.suspended = True
        self._end_early(names.REASON_DEADLINE_EXCEEDED, "TrainJob exceeded its active deadline", message)

    # -- conditions ---------------------------------------------------------------------------------------------------

    def _set_suspended(self, suspended: bool) -> None:
        self.job_set.suspended = suspended
        reason = names.REASON_SUSPENDED if suspended else names.REASON_RESUMED
        message = f"TrainJob is {'suspended' if suspended else 'resumed'}"
        self.status.set_condition(names.SUSPENDED, suspended, reason, message, clock.now())
        self._world.changed()

    def _end_early(self, reason: str, condition_message: str, message: str) -> None:
        if self.ending:
            return
        self._stop_clock()
        self._ending = lambda: self._finish(names.FAILED, reason, condition_message, message)
        if not self.job_set.suspended:
            self.job_set.stop()
        self._world.changed()

    def _follow(self, end: JobSetEnd) -> None:
        """End as the JobSet did."""
        if end.succeeded:
            self._finish(names.COMPLETE, end.reason, end.message, end.message)
        else:
            self._finish(names.FAILED, end.reason, end.message, self._cause(end))

    def _cause(self, end: JobSetEnd) -> str:
        """Say in one line why the JobSet failed."""
        restarts = self.job_set.restarts
        cause = blame.find_cause(self._world.pods.standing_failures(restarts=restarts))
        job = end.job
        if job is not None and job.end is not None and (cause is None or job.end.reason == DEADLINE_EXCEEDED):
            text = f"{job.name}: {job.end.reason}: {job.end.message}"
        else:
            text = end.message if cause is None else blame.sentence(cause)
        return f"{text} (after {restarts} restart{'s' if restarts > 1 else ''})" if restarts else text

    def _finish(self, kind: str, reason: str, condition_message: str, message: str) -> None:
        now = clock.now()
        self.status.set_condition(kind, True, reason, condition_message, now)
        self.status.completed_at = now
        self.status.message = message
        self._world.event("Normal" if kind == names.COMPLETE else "Warning", kind, self._about, message)
