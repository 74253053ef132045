"""The strictness of our typed models, and their errors in our words.

Types are never coerced, unknown fields are refused, attributes are snake_case and YAML names camelCase. A null counts
as absent, as in Kubernetes. pydantic's errors are translated, so that a person reads one kind of message wherever the
problem is.
"""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, ValidationError
from pydantic.alias_generators import to_camel

from trainyard.controller.api.report import Report, describe
from trainyard.controller.api.shape import INT32, INT64


class StrictModel(BaseModel):
    """A part of our API. Frozen: a plan reads it, nobody changes it."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        protected_namespaces=(),
        regex_engine="python-re",
    )


Int32 = Annotated[int, Field(le=INT32)]
Int64 = Annotated[int, Field(le=INT64)]
Plain = Annotated[dict[str, Any], SkipValidation]
"""A part that stays a plain dict; a `shape` checks it (`load`)."""
PlainList = Annotated[list[dict[str, Any]], SkipValidation]
"""A list of such parts."""
Labels = Annotated[dict[str, str], SkipValidation]

_TYPES: Final = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing_size": "an integer of at most 64 bits",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def report_errors(error: ValidationError, model: type[BaseModel], report: Report) -> None:
    """Add every error of a validation to the report."""
    for item in error.errors(include_url=False):
        path = [piece for piece in item["loc"] if piece != "[key]"]
        report.path.extend(path)
        try:
            _report(item["type"], item.get("ctx", {}), item["input"], item["msg"], report, model)
        finally:
            del report.path[len(report.path) - len(path) :]


def _report(
    kind: str, context: dict[str, Any], value: Any, message: str, report: Report, model: type[BaseModel]
) -> None:
    if kind in _TYPES:
        report.expected(_TYPES[kind], value)
    elif kind == "missing":
        report.add("required, not set")
    elif kind == "extra_forbidden":
        name = report.path.pop()
        report.unknown(name, _known(model, report.path))
        report.path.append(name)
    elif kind == "greater_than_equal":
        report.expected(f"an integer of at least {context['ge']}", value)
    elif kind == "less_than_equal":
        report.expected(f"an integer of at most {context['le']}", value)
    elif kind == "string_too_long":
        report.add(f"expected at most {context['max_length']} characters, got {len(value)}")
    elif kind == "string_too_short":
        report.add("must not be empty")
    elif kind == "too_long":
        report.add(f"expected at most {context['max_length']} elements, got {context['actual_length']}")
    elif kind == "too_short":
        report.add(f"expected at least {context['min_length']} elements, got {context['actual_length']}")
    elif kind == "literal_error":
        report.expected(context["expected"], value)
    elif kind == "value_error":
        report.add(str(context["error"]))
    else:
        report.add(f"{message[:1].lower()}{message[1:]}, got {describe(value)}")


def _known(model: type[BaseModel], path: list[str | int]) -> tuple[str, ...]:
    """Give the field names of the model at a path."""
    for piece in path:
        if isinstance(piece, int):
            continue
        field = next((field for field in model.model_fields.values() if field.alias == piece), None)
        below = None if field is None else _model_in(field.annotation)
        if below is None:
            return ()
        model = below
    return tuple(field.alias for field in model.model_fields.values() if field.alias is not None)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Find the model in `Model`, `Model | None` or `list[Model] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in getattr(annotation, "__args__", ()) if (model := _model_in(part)) is not None), None)
