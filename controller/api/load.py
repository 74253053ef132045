"""From plain data to typed objects: every problem of an object at once, each with field path, file and line."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from trainyard.controller.api.documents import Document
from trainyard.controller.api.job_set_shape import JOB_SET_SPEC
from trainyard.controller.api.loaded_model import LoadedModel
from trainyard.controller.api.names_shape import LABELS_ONLY, RUNTIME_METADATA, TRAIN_JOB_METADATA
from trainyard.controller.api.patch_shape import TRAINING_RUNTIME_SPEC_PATCH
from trainyard.controller.api.pod_shape import ENV, RESOURCES
from trainyard.controller.api.problem import InvalidError
from trainyard.controller.api.report import Report, Source
from trainyard.controller.api.runtime import ML_POLICIES, POD_GROUP_POLICIES, TrainingRuntime
from trainyard.controller.api.shape import OPEN, Shape
from trainyard.controller.api.strict_model import report_errors
from trainyard.controller.api.train_job import TrainJob

Model = TypeVar("Model", bound=LoadedModel)
_MAX_DEPTH: Final = 100

# The parts that the models leave plain, and the shape of each; `*` stands for every element of a list.
_TRAIN_JOB_PARTS: Final[tuple[tuple[tuple[str, ...], Shape], ...]] = (
    (("metadata",), TRAIN_JOB_METADATA),
    (("spec", "initializer", "dataset", "env"), ENV),
    (("spec", "initializer", "model", "env"), ENV),
    (("spec", "trainer", "env"), ENV),
    (("spec", "trainer", "resourcesPerNode"), RESOURCES),
    (("spec", "runtimePatches", "*", "trainingRuntimeSpec"), TRAINING_RUNTIME_SPEC_PATCH),
    (("status",), OPEN),
)
_RUNTIME_PARTS: Final[tuple[tuple[tuple[str, ...], Shape], ...]] = (
    (("metadata",), RUNTIME_METADATA),
    (("spec", "template", "metadata"), LABELS_ONLY),
    (("spec", "template", "spec"), JOB_SET_SPEC),
)


def load_train_job(source: Document | Mapping[str, Any]) -> TrainJob:
    """Make a TrainJob of a document or of plain data; raise InvalidError with every problem."""
    return _load(source, TrainJob, _TRAIN_JOB_PARTS, _check_train_job)


def load_runtime(source: Document | Mapping[str, Any]) -> TrainingRuntime:
    """Make a TrainingRuntime (of either kind) of a document or of plain data; raise InvalidError with every problem."""
    return _load(source, TrainingRuntime, _RUNTIME_PARTS, _check_runtime)


def _load(
    source: Document | Mapping[str, Any],
    model: type[Model],
    parts: tuple[tuple[tuple[str, ...], Shape], ...],
    check: Callable[[dict[str, Any], Report], None],
) -> Model:
    place: Source | None = source if isinstance(source, Document) else None
    report = Report(place)
    data = source.data if isinstance(source, Document) else source
    try:
        raw = without_nulls(dict(data))
    except RecursionError:
        report.add(f"nested more than {_MAX_DEPTH} levels deep")
        raise InvalidError(report.problems) from None
    for path, shape in parts:
        _check_part(raw, path, shape, report)
    check(raw, report)
    loaded: Model | None = None
    try:
        loaded = model.model_validate(raw)
    except ValidationError as error:
        report_errors(error, model, report)
    report.finish()
    if loaded is None:
        raise AssertionError("a validation that failed has problems")
    loaded.attach(raw, place)
    return loaded


def without_nulls(value: Any, depth: int = 0) -> Any:
    """Drop mapping entries that are null, as the API server does; what has none is given back itself, not copied."""
    if depth > _MAX_DEPTH:
        raise RecursionError
    if type(value) is dict:
        changed = {
            key: clean
            for key, item in value.items()
            if isinstance(item, dict | list) and (clean := without_nulls(item, depth + 1)) is not item
        }
        if changed or None in value.values():
            return {key: changed.get(key, item) for key, item in value.items() if item is not None}
    elif type(value) is list:
        cleaned = [without_nulls(item, depth + 1) if isinstance(item, dict | list) else item for item in value]
        if any(new is not old for new, old in zip(cleaned, value, strict=True)):
            return cleaned
    return value


def _check_part(value: Any, path: tuple[str, ...], shape: Shape, report: Report) -> None:
    """Check what stands at a path, if anything does; wrong types on the way are the model's to report."""
    if not path:
        shape.check(value, report)
        return
    if path[0] == "*":
        for index, item in enumerate(value if isinstance(value, list) else ()):
            report.path.append(index)
            _check_part(item, path[1:], shape, report)
            report.path.pop()
    elif isinstance(value, dict) and value.get(path[0]) is not None:
        report.path.append(path[0])
        _check_part(value[path[0]], path[1:], shape, report)
        report.path.pop()


def _check_train_job(raw: dict[str, Any], report: Report) -> None:
    patches = _at(raw, "spec", "runtimePatches")
    first: dict[str, int] = {}
    for index, patch in enumerate(patches if isinstance(patches, list) else ()):
        manager = patch.get("manager") if isinstance(patch, dict) else None
        if isinstance(manager, str) and first.setdefault(manager, index) != index:
            message = f"{manager!r} stands here and in element [{first[manager]}]; expected one patch of each manager"
            report.add(message, "spec", "runtimePatches", index, "manager")


def _check_runtime(raw: dict[str, Any], report: Report) -> None:
    _check_at_most_one(raw, ("spec", "mlPolicy"), ML_POLICIES, report)
    _check_at_most_one(raw, ("spec", "podGroupPolicy"), POD_GROUP_POLICIES, report)
    if raw.get("spec") == {}:
        report.add("expected at least one of mlPolicy, podGroupPolicy and template, got an empty mapping", "spec")
    targets = _at(raw, "spec", "mlPolicy", "torch", "envInjection", "targets")
    seen: set[str] = set()
    for index, target in enumerate(targets if isinstance(targets, list) else ()):
        where = ("spec", "mlPolicy", "torch", "envInjection", "targets", index)
        job = _at(target, "jobName")
        if isinstance(job, str) and job in seen:
            report.add(f"a second target for the job {job!r}; name its containers in one", *where, "jobName")
        elif isinstance(job, str):
            seen.add(job)
        names = _at(target, "containerNames")
        for position, name in enumerate(names if isinstance(names, list) else ()):
            if name == "node":
                message = "the container 'node' gets the variables anyway; remove it"
                report.add(message, *where, "containerNames", position)
            elif name in names[:position]:
                report.add(f"{name!r} is named twice", *where, "containerNames", position)


def _check_at_most_one(raw: dict[str, Any], path: tuple[str, ...], choices: tuple[str, ...], report: Report) -> None:
    parent = _at(raw, *path)
    given = [name for name in choices if isinstance(parent, dict) and name in parent]
    if len(given) > 1:
        report.add(f"expected at most one of {', '.join(choices)}, got {' and '.join(given)}", *path)


def _at(value: Any, *path: str) -> Any:
    for piece in path:
        value = value.get(piece) if isinstance(value, dict) else None
    return value
