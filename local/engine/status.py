"""A TrainJob's status: the controller's conditions and jobsStatus, and our additive fields beside them.

Conditions are Complete, Failed and Suspended only, with JobSet's reasons and messages, for the SDK answers `Created`
for ever when it sees another one. What a person wants beside (phase, startTime, completionTime, message,
initializerStatus) stands in fields of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from trainyard.contract import names
from trainyard.local.engine.clock import stamp

Phase = Literal["Queued", "Initializing", "Running", "Suspended", "Complete", "Failed"]

REASON_STOPPED: Final = "Stopped"
"""Ours: somebody stopped the run (Ctrl-C, SIGTERM, `delete`)."""
REASON_INTERNAL: Final = "InternalError"
"""Ours: the executor itself failed."""
REASON_SUPERVISOR_DIED: Final = "SupervisorDied"
REASON_STATE_DAMAGED: Final = "StateDamaged"
"""Ours: the process that ran the job is gone and left no end."""
_INITIALIZER_FIELDS: Final = {names.DATASET_INITIALIZER: "dataset", names.MODEL_INITIALIZER: "model"}
_MOST_CONDITION_CHARS: Final = 32768


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One standard condition."""

    type: str
    is_true: bool
    reason: str
    message: str
    since: datetime

    def to_dict(self) -> dict[str, str]:
        """Serialise as Kubernetes does."""
        return {
            "type": self.type,
            "status": "True" if self.is_true else "False",
            "reason": self.reason,
            "message": self.message[:_MOST_CONDITION_CHARS],
            "lastTransitionTime": stamp(self.since),
        }


@dataclass(kw_only=True, slots=True)
class TrainJobStatus:
    """What is known of a TrainJob while it runs; `to_dict` is what the controller would write."""

    created_at: datetime
    conditions: dict[str, Condition] = field(default_factory=dict)
    started_at: datetime | None = None
    completed_at: datetime | None = None
    message: str = ""
    """One line: what it is doing, or why it failed."""
    progress: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The newest progress message by ancestor step."""

    @property
    def finished(self) -> bool:
        """Say whether it is Complete or Failed."""
        return self._is_true(names.COMPLETE) or self._is_true(names.FAILED)

    def _is_true(self, kind: str) -> bool:
        condition = self.conditions.get(kind)
        return condition is not None and condition.is_true

    def set_condition(self, kind: str, is_true: bool, reason: str, message: str, now: datetime) -> bool:
        """Set a condition; the time changes only when its status does. False when nothing changed."""
        old = self.conditions.get(kind)
        same = old is not None and old.is_true == is_true
        new = Condition(
            type=kind,
            is_true=is_true,
            reason=reason,
            message=message,
            since=old.since if old is not None and same else now,
        )
        self.conditions[kind] = new
        return new != old

    def phase(self, *, training: bool, initializing: bool) -> Phase:
        """Name the phase; the arguments say which Jobs exist now."""
        if self._is_true(names.COMPLETE):
            return "Complete"
        if self._is_true(names.FAILED):
            return "Failed"
        if self._is_true(names.SUSPENDED):
            return "Suspended"
        if training:
            return "Running"
        return "Initializing" if initializing else "Queued"

    def to_dict(self, *, jobs_status: Sequence[Mapping[str, Any]], phase: Phase) -> dict[str, Any]:
        """Build the status."""
        status: dict[str, Any] = {}
        if self.conditions:
            status["conditions"] = [condition.to_dict() for condition in self.conditions.values()]
        status["jobsStatus"] = [dict(job) for job in jobs_status]
        if names.TRAINER in self.progress:
            status["trainerStatus"] = dict(self.progress[names.TRAINER])
        status["phase"] = phase
        if self.started_at is not None:
            status["startTime"] = stamp(self.started_at)
        if self.completed_at is not None:
            status["completionTime"] = stamp(self.completed_at)
        if self.message:
            status["message"] = self.message
        initializers = {
            key: dict(self.progress[step]) for step, key in _INITIALIZER_FIELDS.items() if step in self.progress
        }
        if initializers:
            status["initializerStatus"] = initializers
        return status
