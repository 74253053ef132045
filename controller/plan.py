"""plan: a TrainJob and its runtime become the objects that a cluster is given, and that the local executor runs.

Pure: nothing is read from environment, clock, network or installed packages; equal input gives byte-equal output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.contract import names
from trainyard.controller import pipeline
from trainyard.controller.api.problem import InvalidError
from trainyard.controller.api.runtime import TrainingRuntime
from trainyard.controller.api.train_job import TrainJob
from trainyard.controller.features import Features
from trainyard.controller.lint import examine
from trainyard.controller.phases import Plugin
from trainyard.controller.plugins import BUILT_IN

__all__ = ["Features", "Plan", "plan"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a TrainJob becomes."""

    name: str
    """The TrainJob's name."""
    namespace: str
    """The namespace of all objects."""
    objects: tuple[dict[str, Any], ...]
    """Kubernetes manifests in the order in which they are applied; the JobSet is last."""
    warnings: tuple[str, ...] = ()
    """What a person should know, and what stops nothing."""

    @property
    def job_set(self) -> dict[str, Any]:
        """Give the JobSet."""
        return next(manifest for manifest in self.objects if manifest["kind"] == names.JOBSET)


def plan(
    train_job: TrainJob,
    runtime: TrainingRuntime,
    *,
    plugins: Sequence[Plugin] = BUILT_IN,
    features: Features | None = None,
) -> Plan:
    """Make the plan; raise InvalidError with everything that `lint` refuses.

    `plugins` are ours unless the caller adds some (`discovery.default_plugins`).
    """
    findings, info = examine(train_job, runtime, plugins=plugins, features=features or Features())
    if info is None:
        raise InvalidError(findings.errors)
    return Plan(
        name=info.name,
        namespace=info.namespace,
        objects=tuple(pipeline.build(info, plugins)),
        warnings=findings.warnings,
    )
