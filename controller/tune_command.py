"""`tune run`: the command by which a TrainJob asks for torchtune (the SDK's builtin trainer sends it)."""

from __future__ import annotations

from typing import Final

from trainyard.controller.api.train_job import TrainJob

TUNE_RUN: Final = ("tune", "run")


def is_tune_run(train_job: TrainJob) -> bool:
    """Say whether `spec.trainer.command` is exactly `tune run`."""
    trainer = train_job.spec.trainer
    return trainer is not None and trainer.command is not None and tuple(trainer.command) == TUNE_RUN
