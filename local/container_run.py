"""One container of a pod: what Kubernetes calls its status, with the process behind it.

`pod_lifecycle` decides when a container starts, restarts and ends; this is the state it decides on.
"""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from trainyard.local.clock import fine_stamp
from trainyard.local.launch import ContainerProcess
from trainyard.local.pod import PreparedContainer

Role = Literal["init", "sidecar", "main"]
State = Literal["waiting", "running", "terminated"]

REASON_NOT_STARTED: Final = "StartError"
REASON_INITIALIZING: Final = "PodInitializing"
REASON_BACK_OFF: Final = "CrashLoopBackOff"


@dataclass(kw_only=True, slots=True)
class ContainerRun:
    """A container's state; `attempt`s are counted by `restart_count`."""

    name: str
    role: Role
    spec: dict[str, Any]
    """The container of the pod's manifest."""
    prepared: PreparedContainer | None = field(default=None, repr=False)
    """What to launch, once the pod's files are written."""
    state: State = "waiting"
    reason: str = REASON_INITIALIZING
    message: str = ""
    exit_code: int | None = None
    restart_count: int = 0
    failures_in_a_row: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    ended_by_us: bool = False
    """Whether the end was asked for (deletion, a sidecar's turn to end)."""
    is_up: bool = False
    """Whether its command is executing."""
    has_started: bool = False
    """Whether it was up once, and its startupProbe, if any, succeeded: what follows a sidecar may start."""
    ready: bool = False
    process: ContainerProcess | None = field(default=None, repr=False)

    @property
    def log_file(self) -> Path | None:
        """Say where its output goes."""
        return self.prepared.launch.log_file if self.prepared is not None else None

    @property
    def has_run(self) -> bool:
        """Say whether it was started at least once."""
        return self.started_at is not None

    @property
    def succeeded(self) -> bool:
        """Say whether it ended with code 0."""
        return self.state == "terminated" and self.exit_code == 0

    def to_status(self) -> dict[str, Any]:
        """Build its entry of pods.json."""
        status: dict[str, Any] = {"name": self.name, "role": self.role, "state": self.state, "ready": self.ready}
        if self.state == "terminated" or self.exit_code is not None:
            status["exitCode"] = self.exit_code
        if self.reason and self.state != "running":
            status["reason"] = self.reason
        if self.message:
            status["message"] = self.message
        status["restartCount"] = self.restart_count
        if self.process is not None and self.state == "running":
            status["pid"] = self.process.pid
        if self.started_at is not None:
            status["startedAt"] = fine_stamp(self.started_at)
        if self.finished_at is not None and self.state != "running":
            status["finishedAt"] = fine_stamp(self.finished_at)
        return status
