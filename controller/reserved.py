"""Environment variables that a framework's plugin sets and a TrainJob must not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.controller.api.problem import Problem
from trainyard.controller.info import Info


def reserved_variables(info: Info, reserved: Sequence[str], policy: str) -> Iterator[Problem]:
    """Find reserved names in `spec.trainer.env`."""
    trainer = info.train_job.spec.trainer
    for index, entry in enumerate((trainer.env if trainer is not None else None) or ()):
        if entry.get("name") in reserved:
            yield info.problem(
                f"spec.trainer.env[{index}].name",
                f"must not have reserved envs, got {entry['name']!r}; the {policy} policy sets {', '.join(reserved)}",
            )
