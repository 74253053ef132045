"""runtimePatches: what a TrainJob's managers (the SDK, Kueue, people) change in the runtime's template.

Patches are laid over the template in the order of the list, by strategic merge, before the TrainJob's own values. They
change what the runtime has; they add no job and no container, and never touch what our labels mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainyard.contract import labels, names
from trainyard.controller.api.problem import Problem, nearest
from trainyard.controller.api.runtime import TrainingRuntime
from trainyard.controller.api.train_job import RuntimePatch, TrainJob
from trainyard.controller.container import Manifest
from trainyard.controller.strategic_merge import JOB_SET_SPEC, merge

_ENV_OF_CONTAINER: Final = {
    names.NODE: "spec.trainer.env",
    names.DATASET_INITIALIZER: "spec.initializer.dataset.env",
    names.MODEL_INITIALIZER: "spec.initializer.model.env",
}
"""Containers whose environment the TrainJob sets in a field of its own, and that field."""

_METADATA: Final = ("labels", "annotations")
"""What means something in the metadata of a patch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchedTemplate:
    """A runtime's template with all patches laid over it."""

    labels: Mapping[str, str]
    """The JobSet's labels."""
    annotations: Mapping[str, str]
    """The JobSet's annotations."""
    spec: Manifest
    """The JobSet's spec."""


def patch_template(runtime: TrainingRuntime, patches: Sequence[RuntimePatch]) -> PatchedTemplate:
    """Lay patches over a runtime's template; runtime and patches stay as they are."""
    template = runtime.spec.template
    merged_labels = dict(template.metadata.labels)
    merged_annotations = dict(template.metadata.annotations)
    spec: dict[str, Any] = dict(template.spec)
    order = [job["name"] for job in runtime.replicated_jobs]
    for patch in patches:
        merged_labels.update(patch.metadata.get("labels") or {})
        merged_annotations.update(patch.metadata.get("annotations") or {})
        if patch.replicated_jobs:
            spec = merge(spec, {"replicatedJobs": [_meant(job) for job in patch.replicated_jobs]}, JOB_SET_SPEC)
    if order:
        # Merging moves jobs to where the patches have them.
        known = [job for job in spec["replicatedJobs"] if job["name"] in order]
        spec["replicatedJobs"] = sorted(known, key=lambda job: order.index(job["name"]))
    return PatchedTemplate(labels=merged_labels, annotations=merged_annotations, spec=spec)


def _meant(value: Any, field: str = "") -> Any:
    """Drop what says nothing: empty lists, which a typed client never sends, and most metadata."""
    if isinstance(value, Mapping):
        return {
            name: _meant(inner, name)
            for name, inner in value.items()
            if inner != [] and (field != "metadata" or name in _METADATA)
        }
    return [_meant(inner) for inner in value] if isinstance(value, list) else value


def check_patches(train_job: TrainJob, runtime: TrainingRuntime) -> Iterator[Problem]:
    """Find what patches must not do, each with its path below `spec.runtimePatches`."""
    jobs = {job["name"]: job for job in runtime.replicated_jobs}
    for number, patch in enumerate(train_job.spec.runtime_patches):
        for index, job_patch in enumerate(patch.replicated_jobs):
            path = f"spec.runtimePatches[{number}].trainingRuntimeSpec.template.spec.replicatedJobs[{index}]"
            job = jobs.get(job_patch["name"])
            if job is None:
                message = _unknown(runtime, "replicated job", job_patch["name"], jobs)
                yield train_job.problem(f"{path}.name", message)
            else:
                yield from _check_job_patch(train_job, runtime, job, job_patch, path)


def _check_job_patch(
    train_job: TrainJob, runtime: TrainingRuntime, job: Manifest, patch: Manifest, path: str
) -> Iterator[Problem]:
    template = patch.get("template") or {}
    if labels.ANCESTOR_STEP in ((template.get("metadata") or {}).get("labels") or {}):
        yield train_job.problem(
            f"{path}.template.metadata.labels['{labels.ANCESTOR_STEP}']",
            "the label says what the runtime's job is for and cannot be patched",
        )
    patched_pod = _pod_spec(patch)
    runtime_pod = _pod_spec(job)
    for field, kind in (("containers", "container"), ("initContainers", "init container")):
        known = [container["name"] for container in runtime_pod.get(field) or ()]
        for index, container in enumerate(patched_pod.get(field) or ()):
            name = container["name"]
            container_path = f"{path}.template.spec.template.spec.{field}[{index}]"
            if name not in known:
                message = _unknown(runtime, f"{kind} of the job {job['name']!r}", name, known)
                yield train_job.problem(f"{container_path}.name", message)
            elif container.get("env") and name in _ENV_OF_CONTAINER:
                yield train_job.problem(
                    f"{container_path}.env",
                    f"must not have envs for the container {name!r}; set them in {_ENV_OF_CONTAINER[name]}",
                )


def _pod_spec(job: Manifest) -> Manifest:
    spec: Manifest = (((job.get("template") or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
    return spec


def _unknown(runtime: TrainingRuntime, kind: str, name: str, known: Iterable[str]) -> str:
    there = sorted(known)
    listed = f"it has {', '.join(map(repr, there))}" if there else "it has none"
    return f"runtime {runtime.name!r} has no {kind} called {name!r}; {listed}{nearest(name, there)}"
