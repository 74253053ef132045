"""The pipeline: runtime template, patches, Info, plugins by phase. Knows no framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trainyard.contract import labels, names
from trainyard.controller.api.problem import Problem
from trainyard.controller.api.runtime import TrainingRuntime
from trainyard.controller.api.train_job import TrainJob
from trainyard.controller.container import Container, Manifest
from trainyard.controller.features import Features
from trainyard.controller.info import Info, PodSet, ancestor_of
from trainyard.controller.manifest import plain
from trainyard.controller.patches import patch_template
from trainyard.controller.phases import (
    Builds,
    EnforcesMlPolicy,
    EnforcesPodGroup,
    EnforcesPodSpec,
    Plugin,
    Validates,
)
from trainyard.controller.wiring import wire_initializers


def start(train_job: TrainJob, runtime: TrainingRuntime, features: Features) -> Info:
    """Read the runtime's template with the TrainJob's patches into an Info; the TrainJob's values are not in it yet."""
    template = patch_template(runtime, train_job.spec.runtime_patches)
    jobs = template.spec.get("replicatedJobs") or ()
    pod_sets = tuple(_pod_set(job) for job in jobs)
    return Info(
        train_job=train_job,
        runtime=runtime,
        features=features,
        labels=template.labels,
        annotations=template.annotations,
        job_set_spec=template.spec,
        pod_sets=pod_sets,
        template=pod_sets,
    )


def validate(info: Info, plugins: Sequence[Plugin], old: TrainJob | None = None) -> Iterator[Problem]:
    """Collect what the plugins refuse."""
    for plugin in plugins:
        if isinstance(plugin, Validates) and (
            not isinstance(plugin, EnforcesMlPolicy) or plugin.policy == info.ml_policy
        ):
            yield from plugin.validate(info, old)


def check_policy(info: Info, plugins: Sequence[Plugin]) -> Iterator[Problem]:
    """Refuse a runtime whose mlPolicy no plugin handles."""
    policies = [plugin.policy for plugin in plugins if isinstance(plugin, EnforcesMlPolicy)]
    if info.ml_policy not in policies:
        known = ", ".join(sorted({policy for policy in policies if policy}))
        yield info.runtime_problem(
            f"spec.mlPolicy.{info.ml_policy}".rstrip("."),
            f"the policy {info.ml_policy!r} is not supported by this version of trainyard; "
            f"supported are {known}, and what installed plugins handle",
        )


def warn(info: Info, plugins: Sequence[Plugin]) -> Iterator[str]:
    """Say what the TrainJob or the runtime asks for in vain."""
    groups = [plugin.pod_group_policy for plugin in plugins if isinstance(plugin, EnforcesPodGroup)]
    if info.pod_group_policy and info.pod_group_policy not in groups:
        yield (
            f"runtime {info.runtime.name!r}: podGroupPolicy {info.pod_group_policy!r} is not supported by this version "
            "of trainyard; its pods are scheduled one by one"
        )
    if info.train_job.spec.trainer is not None and (info.trainer is None or info.trainer.main_container is None):
        yield (
            f"spec.trainer has no effect: runtime {info.runtime.name!r} has no job labelled "
            f"{labels.ANCESTOR_STEP}: {names.TRAINER} with a container {names.NODE!r}"
        )


def enforce(info: Info, plugins: Sequence[Plugin]) -> Info:
    """Lay the TrainJob's values and the plugins' over the template."""
    info = wire_initializers(info)
    for plugin in plugins:
        if isinstance(plugin, EnforcesMlPolicy) and plugin.policy == info.ml_policy:
            info = plugin.enforce_ml_policy(info)
    for plugin in plugins:
        if isinstance(plugin, EnforcesPodGroup) and plugin.pod_group_policy == info.pod_group_policy:
            info = plugin.enforce_pod_group(info)
    for plugin in plugins:
        if isinstance(plugin, EnforcesPodSpec):
            info = plugin.enforce_pod_spec(info)
    return info


def build(info: Info, plugins: Sequence[Plugin]) -> Iterator[dict[str, Any]]:
    """Write the objects, as plain values that share nothing with what came in."""
    for plugin in plugins:
        if isinstance(plugin, Builds):
            for manifest in plugin.build(info):
                yield plain(manifest)


def _pod_set(job: Manifest) -> PodSet:
    ancestor = ancestor_of(job)
    job_spec = (job.get("template") or {}).get("spec") or {}
    pod_spec = (job_spec.get("template") or {}).get("spec") or {}
    is_trainer = ancestor == names.TRAINER
    replicas = job.get("replicas")
    return PodSet(
        name=str(job.get("name", "")),
        ancestor=ancestor,
        # The plugin of the ML policy says how many nodes there are, and of which job.
        count=1 if is_trainer else max(1, job_spec.get("parallelism", 1)),
        own_completions=None if is_trainer else job_spec.get("completions"),
        replicas=1 if ancestor is not None or replicas is None else replicas,
        manifest=job,
        containers=_containers(pod_spec.get("containers")),
        init_containers=_containers(pod_spec.get("initContainers")),
        volumes=tuple(pod_spec.get("volumes") or ()),
    )


def _containers(manifests: Iterable[Manifest] | None) -> tuple[Container, ...]:
    return tuple(Container(manifest=manifest) for manifest in manifests or ())
