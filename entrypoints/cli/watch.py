"""Looks at a running job through its state folder, again and again: what the live view and the plain lines show.

A look costs a few small file reads. Works for a job that runs in this process, in another one, or not at all any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trainyard.contract import names, paths
from trainyard.entrypoints.cli.follow import Follower, LogLine
from trainyard.entrypoints.cli.log_file import LogTail, clean
from trainyard.entrypoints.cli.outcome import loss_of, output_folders
from trainyard.entrypoints.cli.state import command_for
from trainyard.entrypoints.cli.steps import Step, parse_time, steps_of, to_view
from trainyard.entrypoints.cli.view import FINISHED, SUSPENDED, JobView
from trainyard.local.store.job_folder import PLAN
from trainyard.local.store.state import JobState

_PROGRESS_FIELDS: Final = {names.DATASET_INITIALIZER: "dataset", names.MODEL_INITIALIZER: "model"}

_STOPPING: Final = "; every process may finish within its grace period, Ctrl-C again ends them at once"


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One job at one moment, and what was said since the look before."""

    now: datetime
    """When it was looked."""
    train_job: Mapping[str, Any]
    """The TrainJob with its status."""
    steps: tuple[Step, ...]
    """Its steps."""
    lines: tuple[LogLine, ...]
    """Log lines since the look before."""
    events: tuple[Mapping[str, str], ...]
    """Events since the look before."""

    @property
    def status(self) -> Mapping[str, Any]:
        """Its status."""
        status: Mapping[str, Any] = self.train_job.get("status") or {}
        return status

    @property
    def phase(self) -> str:
        """Queued, Initializing, Running, Suspended, Complete or Failed."""
        return str(self.status.get("phase", "Queued"))

    @property
    def reason(self) -> str:
        """Say why it is Complete or Failed, in CamelCase; empty before."""
        ended = (one for one in self.status.get("conditions") or () if one.get("type") in FINISHED)
        return next((str(one.get("reason", "")) for one in ended if one.get("status") == "True"), "")

    @property
    def is_finished(self) -> bool:
        """Say whether it is Complete or Failed."""
        return self.phase in FINISHED

    @property
    def seconds(self) -> float:
        """Time since the start, or that it took."""
        start = parse_time(self.status.get("startTime"))
        end = parse_time(self.status.get("completionTime")) or self.now
        return 0.0 if start is None else (end - start).total_seconds()

    @property
    def warnings(self) -> list[str]:
        """Say what the executor warned of since the look before; how a job ended is told by its status."""
        return [
            f"{event.get('message')}{_STOPPING if event.get('reason') == 'Stopping' else ''}"
            for event in self.events
            if event.get("type") == "Warning" and event.get("reason") != "Failed"
        ]

    def progress(self, step: Step) -> Mapping[str, Any] | None:
        """Give what a step reported, a trainerStatus; a trainer's stands at its first pod."""
        if step.ancestor == names.TRAINER:
            first = next(other for other in self.steps if other.ancestor == names.TRAINER)
            return self.status.get("trainerStatus") if step is first else None
        field = _PROGRESS_FIELDS.get(step.ancestor or "")
        return (self.status.get("initializerStatus") or {}).get(field) if field else None


class Watcher:
    """Looks at one job; remembers what it has seen."""

    def __init__(self, job: JobState) -> None:
        self.job = job
        self._job_set: Mapping[str, Any] | None = None
        self._follower = Follower(job.log_path)
        self._told: Look | None = None
        self._events_seen = 0
        self._losses: list[float] = []
        self._metrics: LogTail | None = None
        self._last_line: tuple[str, str] | None = None
        self._notice = ""

    def look(self) -> Look:
        """See what there is now, and what was written since the look before."""
        # In this order: a pod that is seen to have ended has written all its lines before.
        look = self.glance()
        lines = tuple(self._follower.read(look.steps))
        if self.is_behind and self._told is not None:
            # It writes faster than it is shown: what happened after these lines is told after them.
            look = replace(self._told, now=look.now, lines=lines, events=())
        else:
            look = replace(look, lines=lines, events=look.events[self._events_seen :])
            self._events_seen += len(look.events)
            self._told = look
        if look.warnings:
            self._notice = look.warnings[-1]
        if look.lines:
            self._last_line = look.lines[-1].source, clean(look.lines[-1].text)
        return look

    @property
    def is_behind(self) -> bool:
        """Say whether there is more to see at once, without waiting for anything to happen."""
        return self._follower.has_more

    def glance(self) -> Look:
        """See what there is now, without the logs; with all events."""
        train_job = self.job.status()
        steps = self.steps()
        events = tuple(self.job.events())
        return Look(now=datetime.now(UTC), train_job=train_job, steps=steps, lines=(), events=events)

    def steps(self) -> tuple[Step, ...]:
        """List the steps as they are now."""
        if self._job_set is None:
            plan = [] if PLAN in self.job.damaged() else self.job.plan()
            self._job_set = next((one for one in plan if one.get("kind") == names.JOBSET), {})
        return steps_of(self._job_set, self.job.pods())

    def close(self) -> list[LogLine]:
        """Give what is left of unfinished lines, and stop looking."""
        if self._metrics is not None:
            self._metrics.close()
        return self._follower.close()

    def view(self, look: Look) -> JobView:
        """Make what the live view draws."""
        self._read_losses()
        return JobView(
            name=self.job.name,
            phase=look.phase,
            seconds=look.seconds,
            steps=tuple(to_view(step, look.now, look.progress(step)) for step in look.steps),
            losses=tuple(self._losses),
            last_line=None if look.is_finished else self._last_line,
            notice="" if look.is_finished else how_to_resume(self.job, look) or self._notice,
        )

    def _read_losses(self) -> None:
        if self._metrics is None:
            found = next((folder / paths.METRICS for folder in output_folders(self.job.folder)), None)
            if found is None or not Path(found).exists():
                return
            self._metrics = LogTail(found)
        self._losses.extend(loss for line in self._metrics.read() if (loss := loss_of(line)) is not None)


def how_to_resume(job: JobState, look: Look) -> str:
    """Say how a suspended job goes on; empty for another one."""
    return f"suspended: `{command_for(job, 'resume')}` in another terminal starts it" if look.phase == SUSPENDED else ""
