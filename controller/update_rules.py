"""What may change in a TrainJob after it was created (design 5.13 and 5.14)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from trainyard.controller.api.problem import Problem
from trainyard.controller.api.quantity import parse_quantity
from trainyard.controller.api.train_job import RuntimePatch, Trainer, TrainJob
from trainyard.controller.container import Manifest

_PATCHES: Final = "spec.runtimePatches"

_CHANGEABLE: Final = ("nodeSelector", "tolerations", "schedulingGates")
"""Fields of a pod's spec that JobSet lets change while it is suspended; metadata of pods may change too."""

_HINT: Final = (
    "while the job is suspended, labels and annotations of the JobSet and of pods, "
    f"{', '.join(_CHANGEABLE)} can change, nothing else"
)


def check_update(new: TrainJob, old: TrainJob) -> Iterator[Problem]:
    """Refuse changes of what cannot change any more; adding and removing are changes."""
    for field, before, after in (
        ("runtimeRef", old.spec.runtime_ref, new.spec.runtime_ref),
        ("initializer", old.spec.initializer, new.spec.initializer),
        ("trainer", _comparable(old.spec.trainer), _comparable(new.spec.trainer)),
        ("activeDeadlineSeconds", old.spec.active_deadline_seconds, new.spec.active_deadline_seconds),
        ("managedBy", old.spec.managed_by, new.spec.managed_by),
    ):
        if before != after:
            done = "added" if before is None else "removed" if after is None else "changed"
            yield new.problem(
                f"spec.{field}", f"field is immutable: it cannot be {done} after the TrainJob was created"
            )
    yield from _check_patches(new, old)


def _check_patches(new: TrainJob, old: TrainJob) -> Iterator[Problem]:
    before = {patch.manager: patch for patch in old.spec.runtime_patches}
    after = {patch.manager: patch for patch in new.spec.runtime_patches}
    if [_content(patch) for patch in before.values()] == [_content(patch) for patch in after.values()]:
        return
    if not (old.spec.suspend or new.spec.suspend):
        yield new.problem(_PATCHES, "cannot be changed while the job runs: suspend it first (spec.suspend: true)")
        return
    problems = [*_changed(new, before), *_removed(new, before, after)]
    kept_before = [manager for manager in before if manager in after and _lasting(before[manager])]
    kept_after = [manager for manager in after if manager in before and _lasting(before[manager])]
    if not problems and kept_before != kept_after:
        # Where two patches say different things of one field, the later one counts.
        problems.append(new.problem(_PATCHES, f"cannot be put in another order; {_HINT}"))
    yield from problems


def _changed(new: TrainJob, before: Mapping[str, RuntimePatch]) -> Iterator[Problem]:
    """Find what patches of the new TrainJob say that the old one's did not."""
    for index, patch in enumerate(new.spec.runtime_patches):
        path = f"{_PATCHES}[{index}].trainingRuntimeSpec.template.spec.replicatedJobs"
        old_patch = before.get(patch.manager)
        old_values = {key: value for key, (_, value) in _lasting(old_patch).items()} if old_patch is not None else {}
        new_values = _lasting(patch)
        for key, (place, value) in new_values.items():
            if old_values.get(key) != value:
                done = "changed" if key in old_values else "added"
                yield new.problem(f"{path}{place}", f"cannot be {done} after the TrainJob was created; {_HINT}")
        for key in old_values:
            if key not in new_values:
                yield new.problem(
                    f"{_PATCHES}[{index}]", f"{'.'.join(key)} cannot be removed after the TrainJob was created; {_HINT}"
                )


def _removed(new: TrainJob, before: Mapping[str, RuntimePatch], after: Mapping[str, RuntimePatch]) -> Iterator[Problem]:
    for manager, patch in before.items():
        if manager not in after:
            for key in _lasting(patch):
                yield new.problem(
                    _PATCHES,
                    f"{'.'.join(key)} of {manager!r} cannot be removed after the TrainJob was created; {_HINT}",
                )


def _lasting(patch: RuntimePatch) -> dict[tuple[str, ...], tuple[str, Any]]:
    """Give what a patch says for good: what it is about (job, container, field), where in the patch, and the value."""
    found: dict[tuple[str, ...], tuple[str, Any]] = {}
    for index, job in enumerate(patch.replicated_jobs):
        template: Manifest = job.get("template") or {}
        pod: Manifest = ((template.get("spec") or {}).get("template") or {}).get("spec") or {}
        found |= _values((job["name"], "metadata"), f"[{index}].template.metadata", template.get("metadata") or {})
        place = f"[{index}].template.spec.template.spec"
        for field, value in pod.items():
            if field in ("containers", "initContainers"):
                found |= _container_values((job["name"], field), f"{place}.{field}", value)
            elif field not in _CHANGEABLE:
                found |= _values((job["name"],), place, {field: value})
    return found


def _container_values(
    key: tuple[str, ...], place: str, containers: Sequence[Manifest]
) -> dict[tuple[str, ...], tuple[str, Any]]:
    found: dict[tuple[str, ...], tuple[str, Any]] = {}
    for index, container in enumerate(containers):
        fields = {field: value for field, value in container.items() if field != "name"}
        found |= _values((*key, container["name"]), f"{place}[{index}]", fields)
    return found


def _values(key: tuple[str, ...], place: str, manifest: Manifest) -> dict[tuple[str, ...], tuple[str, Any]]:
    """Give the fields that say something; an empty list or map says nothing."""
    return {(*key, field): (f"{place}.{field}", value) for field, value in manifest.items() if value not in ([], {})}


def _content(patch: RuntimePatch) -> RuntimePatch:
    """Give a patch without its time, which a webhook stamps."""
    return replace(patch, time=None)


def _comparable(trainer: Trainer | None) -> Trainer | None:
    """Give a trainer whose quantities are numbers: "1" and "1000m" are no change."""
    if trainer is None or trainer.resources_per_node is None:
        return trainer
    amounts = {
        field: {name: parse_quantity(amount).nanos for name, amount in value.items()} if field != "claims" else value
        for field, value in trainer.resources_per_node.items()
    }
    return replace(trainer, resources_per_node=amounts)
