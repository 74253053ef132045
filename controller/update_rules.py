"""What may change in a TrainJob after it was created."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.controller.api.problem import Problem
from trainyard.controller.api.runtime import TrainingRuntime
from trainyard.controller.api.train_job import TrainJob


def check_update(new: TrainJob, runtime: TrainingRuntime | None, old: TrainJob) -> Iterator[Problem]:
    """Refuse changes of what cannot change any more."""
    for field, attribute in (
        ("runtimeRef", "runtime_ref"),
        ("initializer", "initializer"),
        ("trainer", "trainer"),
        ("activeDeadlineSeconds", "active_deadline_seconds"),
        ("managedBy", "managed_by"),
    ):
        if getattr(new.spec, attribute) != getattr(old.spec, attribute):
            yield new.problem(f"spec.{field}", "field is immutable")
