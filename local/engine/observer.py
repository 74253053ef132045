"""How a caller of `run` watches a job from within the same process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The job at one moment; the same that status.json and pods.json hold."""

    train_job: Mapping[str, Any]
    """The TrainJob with its status."""
    pods: Sequence[Mapping[str, Any]]
    """One entry per pod (`pods.json`)."""


class Observer(Protocol):
    """Hears of a job's progress in the thread that runs it, and must return quickly; one that raises is left alone."""

    def event(self, event: Mapping[str, str]) -> None:
        """Hear of an event: time, type (Normal or Warning), reason, object, message."""

    def snapshot(self, snapshot: Snapshot) -> None:
        """See the job's state, a few times a second at most, and once at the end."""
