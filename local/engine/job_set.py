"""The JobSet: which Jobs exist now, what follows when one succeeds or fails, suspend and resume.

`reconcile` is JobSet 0.12's, without a server between: failed Jobs ask the failurePolicy, succeeded ones the
successPolicy, then Jobs are made whose dependencies are met, then suspended ones are stopped or resumed. A restart ends
every Job of the attempt (succeeded initializers too) and makes them anew, in the same order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from trainyard.local.engine.job import JobRun, JobWorld
from trainyard.local.engine.job_set_spec import (
    FAIL_JOB_SET,
    RESTART_JOB,
    RESTART_JOB_SET,
    RESTART_JOB_SET_UNCOUNTED,
    RESTART_JOB_UNCOUNTED,
    FailureRule,
    JobSetSpec,
    ReplicatedJob,
)
from trainyard.local.engine.pod_template import job_name

ALL_JOBS_COMPLETED: Final = ("AllJobsCompleted", "jobset completed successfully")
FAILED_JOBS: Final = ("FailedJobs", "jobset failed due to one or more job failures")
REACHED_MAX_RESTARTS: Final = ("ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")
SUSPENDED_JOBS: Final = ("SuspendedJobs", "jobset is suspended")
RESUMED_JOBS: Final = ("ResumeJobs", "jobset is resumed")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSetEnd:
    """The JobSet's Completed or Failed condition."""

    succeeded: bool
    reason: str
    message: str
    job: JobRun | None = None
    """The Job that decided it, when it failed."""


class JobSetRun:
    """One JobSet."""

    def __init__(self, spec: JobSetSpec, world: JobWorld) -> None:
        self.spec = spec
        self.end: JobSetEnd | None = None
        self.restarts = 0
        self.suspended = spec.suspended
        self.jobs: dict[str, JobRun] = {}
        """Jobs of the current attempt, by name."""
        self._world = world
        self._leaving: dict[str, JobRun] = {}
        self._restarts_counted = 0
        self._stopped = False
        self._said_suspended: bool | None = None
        self._said_order = ""

    @property
    def all_jobs(self) -> list[JobRun]:
        """List current Jobs and those of earlier attempts that still have pods."""
        return [*self._leaving.values(), *self.jobs.values()]

    @property
    def idle(self) -> bool:
        """Say whether no pod is left."""
        return not any(job.pods for job in self.all_jobs)

    def reconcile(self) -> None:
        """Take in what happened and do what is due; call it until nothing changes any more."""
        for job in self.all_jobs:
            job.sync()
        self._leaving = {name: job for name, job in self._leaving.items() if not job.gone}
        if self.end is not None or self._stopped:
            return
        failed = [job for job in self.jobs.values() if job.end is not None and not job.end.succeeded]
        if failed:
            self._apply_failure_policy(failed)
            return
        succeeded = [job for job in self.jobs.values() if job.end is not None and job.end.succeeded]
        counted = sum(1 for job in succeeded if self.spec.counts_for_success(job.replicated_job))
        if succeeded and counted >= self.spec.jobs_needed():
            self._finish(succeeded=True, reason=ALL_JOBS_COMPLETED[0], message=ALL_JOBS_COMPLETED[1])
            return
        if self.suspended:
            self._suspend_jobs()
        else:
            self._in_turn(lambda name: self.jobs[name].resume() if name in self.jobs else None)
            self._say_suspended(False)
        self._in_turn(self._create)

    def statuses(self) -> list[dict[str, Any]]:
        """Build replicatedJobsStatus, in the order of the spec."""
        return [self._status(job) for job in self.spec.replicated_jobs]

    def stop(self, grace_seconds: float | None = None) -> None:
        """End every pod within the grace period, and start no others."""
        self._stopped = True
        for job in self.all_jobs:
            job.delete(grace_seconds)

    def kill(self) -> None:
        """End every pod at once, and start no others."""
        self._stopped = True
        for job in self.all_jobs:
            job.kill()

    # -- what is to exist -----------------------------------------------------------------------------------------

    def _status(self, replicated: ReplicatedJob) -> dict[str, Any]:
        jobs = [job for job in self.jobs.values() if job.replicated_job == replicated.name]
        unfinished = [job for job in jobs if job.end is None]
        return {
            "name": replicated.name,
            "ready": sum(1 for job in unfinished if job.is_ready),
            "succeeded": sum(1 for job in jobs if job.end is not None and job.end.succeeded),
            "failed": sum(1 for job in jobs if job.end is not None and not job.end.succeeded),
            "active": sum(1 for job in unfinished if job.active),
            "suspended": sum(1 for job in unfinished if job.suspended),
        }

    def _in_turn(self, action: Callable[[str], None]) -> None:
        """Act on the Jobs of each replicated job whose turn it is."""
        statuses = {status["name"]: status for status in self.statuses()}
        replicas = {job.name: job.replicas for job in self.spec.replicated_jobs}
        for replicated in self.spec.replicated_jobs:
            if not all(_reached(one.status, statuses[one.name], replicas[one.name]) for one in replicated.depends_on):
                continue
            wait = self.spec.in_order and not self.suspended
            if wait and _reached("Ready", statuses[replicated.name], replicated.replicas):
                continue
            for index in range(replicated.replicas):
                action(job_name(self.spec, replicated, index))
            if wait:
                self._say_order("InOrderStartupPolicyInProgress", "in order startup policy is in progress")
                return
        if self.spec.in_order and not self.suspended:
            self._say_order("InOrderStartupPolicyCompleted", "in order startup policy has completed")

    def _create(self, name: str) -> None:
        blocked = self._leaving and self.spec.failure_policy is not None and self.spec.failure_policy.blocking
        if name in self.jobs or name in self._leaving or blocked:
            return
        replicated, index = self._find(name)
        job = JobRun(
            name=name,
            namespace=self.spec.namespace,
            replicated_job=replicated.name,
            index=index,
            spec=replicated.job,
            world=self._world,
        )
        self.jobs[name] = job
        if self.suspended:
            job.suspend()
        self._world.event("Normal", "SuccessfulCreate", f"JobSet/{self.spec.name}", f"Created job: {name}")
        job.sync()
        self._world.changed()

    def _find(self, name: str) -> tuple[ReplicatedJob, int]:
        for replicated in self.spec.replicated_jobs:
            for index in range(replicated.replicas):
                if job_name(self.spec, replicated, index) == name:
                    return replicated, index
        raise KeyError(name)

    def _suspend_jobs(self) -> None:
        for job in self.jobs.values():
            if not job.suspended and job.end is None:
                job.suspend()
                job.sync()
        self._say_suspended(True)

    def _say_suspended(self, suspended: bool) -> None:
        if suspended != self._said_suspended and (suspended or self._said_suspended is not None):
            reason, message = SUSPENDED_JOBS if suspended else RESUMED_JOBS
            self._world.event("Normal", reason, f"JobSet/{self.spec.name}", message)
            self._said_suspended = suspended

    def _say_order(self, reason: str, message: str) -> None:
        if self._said_order != reason:
            self._said_order = reason
            self._world.event("Normal", reason, f"JobSet/{self.spec.name}", message)

    # -- failures -------------------------------------------------------------------------------------------------

    def _apply_failure_policy(self, failed: list[JobRun]) -> None:
        failed = sorted(failed, key=_ended_at)
        policy = self.spec.failure_policy
        if policy is None:
            self._fail(*FAILED_JOBS, first=failed[0])
            return
        rule, job = self._matching_rule(policy.rules, failed)
        action = rule.action if rule is not None else RESTART_JOB_SET
        about = f"applying {action} failure policy action"
        if action == FAIL_JOB_SET:
            self._fail(f"{action}FailurePolicyAction", about, first=job)
            return
        counted = action not in (RESTART_JOB_SET_UNCOUNTED, RESTART_JOB_UNCOUNTED)
        if counted and self._restarts_counted >= policy.max_restarts:
            self._fail(*REACHED_MAX_RESTARTS, first=job)
            return
        self._restarts_counted += 1 if counted else 0
        message = f"{about} (first failed job: {job.name})"
        self._world.event("Warning", f"{action}FailurePolicyAction", f"JobSet/{self.spec.name}", message)
        if action in (RESTART_JOB, RESTART_JOB_UNCOUNTED):
            self._retire([job])
        else:
            self.restarts += 1
            self._retire(list(self.jobs.values()))
        self._world.changed()

    @staticmethod
    def _matching_rule(rules: tuple[FailureRule, ...], failed: list[JobRun]) -> tuple[FailureRule | None, JobRun]:
        for rule in rules:
            for job in failed:
                assert job.end is not None
                if rule.matches(replicated_job=job.replicated_job, reason=job.end.reason, message=job.end.message):
                    return rule, job
        return None, failed[0]

    def _retire(self, jobs: list[JobRun]) -> None:
        for job in jobs:
            del self.jobs[job.name]
            job.delete()
            if not job.gone:
                self._leaving[job.name] = job

    def _fail(self, reason: str, message: str, *, first: JobRun) -> None:
        self._finish(succeeded=False, reason=reason, message=f"{message} (first failed job: {first.name})", job=first)

    def _finish(self, *, succeeded: bool, reason: str, message: str, job: JobRun | None = None) -> None:
        self.end = JobSetEnd(succeeded=succeeded, reason=reason, message=message, job=job)
        kind = "Normal" if succeeded else "Warning"
        self._world.event(kind, reason, f"JobSet/{self.spec.name}", message)
        for job in self.all_jobs:
            if job.end is None:
                job.delete()
        self._world.changed()


def _reached(status: str, actual: dict[str, Any], replicas: int) -> bool:
    succeeded = int(actual["succeeded"])
    if status == "Complete":
        return succeeded == replicas
    return succeeded + int(actual["failed"]) + int(actual["ready"]) == replicas


def _ended_at(job: JobRun) -> datetime:
    assert job.end is not None
    return job.end.time
