"""lint: everything that admission refuses or warns about. Webhooks, `trainyard lint` and `plan` all ask here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.contract import labels
from trainyard.controller import pipeline
from trainyard.controller.api.problem import Problem
from trainyard.controller.api.runtime import TrainingRuntime
from trainyard.controller.api.train_job import TrainJob
from trainyard.controller.features import Features
from trainyard.controller.info import Info
from trainyard.controller.initializer_rules import check_initializers
from trainyard.controller.patches import check_patches
from trainyard.controller.phases import Plugin
from trainyard.controller.plugins import BUILT_IN
from trainyard.controller.pod_rules import check_names, doubts
from trainyard.controller.runtime_rules import check_runtime
from trainyard.controller.runtimes import check_reference
from trainyard.controller.update_rules import check_update


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """What was found."""

    errors: tuple[Problem, ...] = ()
    """What is refused."""
    warnings: tuple[str, ...] = ()
    """What a person should know."""


def lint(
    train_job: TrainJob,
    runtime: TrainingRuntime | None,
    *,
    old: TrainJob | None = None,
    plugins: Sequence[Plugin] = BUILT_IN,
) -> Findings:
    """Check a TrainJob, with its runtime where that is known; `old` is the TrainJob before an update."""
    if runtime is None:
        update = check_update(train_job, old) if old is not None else ()
        return Findings(errors=(*check_reference(train_job), *update))
    return examine(train_job, runtime, old=old, plugins=plugins)[0]


def lint_runtime(runtime: TrainingRuntime) -> Findings:
    """Check a runtime on its own."""
    warnings = deprecation(runtime)
    if _validation_is_disabled(runtime):
        return Findings(warnings=warnings)
    return Findings(errors=tuple(check_runtime(runtime)), warnings=warnings)


def examine(
    train_job: TrainJob,
    runtime: TrainingRuntime,
    *,
    old: TrainJob | None = None,
    plugins: Sequence[Plugin] = BUILT_IN,
    features: Features | None = None,
) -> tuple[Findings, Info | None]:
    """Check a TrainJob with its runtime; give what was found, and the finished Info unless something is refused."""
    errors = [*check_reference(train_job)]
    if not _validation_is_disabled(runtime):
        errors += check_runtime(runtime)
    errors += check_patches(train_job, runtime)
    if old is not None:
        errors += check_update(train_job, old)
    info = pipeline.start(train_job, runtime, features or Features())
    errors += pipeline.check_policy(info, plugins)
    errors += check_initializers(info)
    errors += pipeline.validate(info, plugins, old)
    # As with the reference, nobody hears of a deprecated TrainingRuntime when a TrainJob is made.
    warnings = [*deprecation(runtime)] if runtime.is_cluster_scoped else []
    warnings += pipeline.warn(info, plugins)
    if not errors:
        info = pipeline.enforce(info, plugins)
        errors += check_names(info)
        warnings += (f"{doubt}; a cluster would refuse the pods" for doubt in doubts(info))
    return Findings(errors=tuple(errors), warnings=tuple(warnings)), None if errors else info


def deprecation(runtime: TrainingRuntime) -> tuple[str, ...]:
    """Warn of a runtime that is labelled deprecated."""
    if runtime.metadata.labels.get(labels.SUPPORT) != labels.SUPPORT_DEPRECATED:
        return ()
    return (f"{runtime.kind} {runtime.name!r} is deprecated and may be removed; choose another runtime",)


def _validation_is_disabled(runtime: TrainingRuntime) -> bool:
    return runtime.metadata.labels.get(labels.WEBHOOK_VALIDATION) == labels.WEBHOOK_VALIDATION_DISABLED
