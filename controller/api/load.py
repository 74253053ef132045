"""From plain data to typed objects: every problem of an object at once, each with field path, file and line."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from trainyard.controller.api.documents import Document
from trainyard.controller.api.loaded import Loaded
from trainyard.controller.api.model import build, shape_of
from trainyard.controller.api.report import Report
from trainyard.controller.api.runtime import TrainingRuntime
from trainyard.controller.api.train_job import TrainJob

Kind = TypeVar("Kind", bound=Loaded)
_MAX_DEPTH: Final = 100


def load_train_job(source: Document | Mapping[str, Any]) -> TrainJob:
    """Make a TrainJob of a document or of plain data; raise InvalidError with every problem."""
    return _load(source, TrainJob)


def load_runtime(source: Document | Mapping[str, Any]) -> TrainingRuntime:
    """Make a TrainingRuntime (of either kind) of a document or of plain data; raise InvalidError with every problem."""
    return _load(source, TrainingRuntime)


def _load(source: Document | Mapping[str, Any], model: type[Kind]) -> Kind:
    document = source if isinstance(source, Document) else None
    report = Report(document)
    raw: dict[str, Any] = {}
    try:
        raw = without_nulls(dict(source.data if isinstance(source, Document) else source))
    except RecursionError:
        report.add(f"nested more than {_MAX_DEPTH} levels deep")
        report.finish()
    shape_of(model).check(raw, report)
    report.finish()
    return build(model, raw, raw=raw, source=document)


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
