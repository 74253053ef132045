"""Typed views of our kinds: frozen dataclasses whose hints say the type and, in `Annotated`, the shape of the YAML.

    num_nodes: Annotated[int | None, Integer()] = None

reads: `numNodes` may be absent, else it is an integer from 0 to 2^31-1. A hint that is a model, `str` or `bool` needs
no shape. `shape_of` gives the table that checks plain data, `build` makes the model of data that passed. Why not
pydantic: importing it takes longer than all else that `render` does together, and the templates need tables anyway, so
this way there is one kind of check and one kind of message.
"""

import dataclasses
import types
import typing
from typing import Annotated, Any, ClassVar, Final, TypeVar

from trainyard.controller.api.shape import BOOLEAN, TEXT, Record, Rule, Shape

Part = TypeVar("Part", bound="Model")
NOT_YAML: Final = {"not in YAML": True}
"""Metadata of a dataclass field that does not come from YAML."""


class Model:
    """A mapping of our API. Subclasses are dataclasses: attributes are snake_case, YAML names camelCase."""

    __slots__ = ()
    rules: ClassVar[tuple[Rule, ...]] = ()
    """What the fields of the mapping mean together."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    name: str
    shape: Shape
    required: bool
    model: type[Model] | None
    is_list: bool


_FIELDS: Final[dict[type, tuple[_Field, ...]]] = {}
_SHAPES: Final[dict[type, Record]] = {}


def _fields(model: type[Any]) -> tuple[_Field, ...]:
    if model not in _FIELDS:
        _FIELDS[model] = tuple(_field(field) for field in dataclasses.fields(model) if not field.metadata)
    return _FIELDS[model]


def _field(field: "dataclasses.Field[Any]") -> _Field:
    hint: Any = field.type
    shape: Shape | None = None
    if typing.get_origin(hint) is Annotated:
        hint, shape = typing.get_args(hint)
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    is_list = typing.get_origin(hint) is list
    item = typing.get_args(hint)[0] if is_list else hint
    model = item if isinstance(item, type) and issubclass(item, Model) else None
    if shape is None:
        shape = shape_of(model) if model is not None else BOOLEAN if hint is bool else TEXT
    head, *tail = field.name.split("_")
    return _Field(
        attribute=field.name,
        name=head + "".join(word.capitalize() for word in tail),
        shape=shape,
        required=field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        model=model,
        is_list=is_list,
    )


def shape_of(model: type[Any]) -> Record:
    """Give the table that checks the plain data of a model."""
    if model not in _SHAPES:
        fields = _fields(model)
        _SHAPES[model] = Record(
            fields={field.name: field.shape for field in fields},
            required=tuple(field.name for field in fields if field.required),
            rules=model.rules,
        )
    return _SHAPES[model]


def build(model: type[Part], data: dict[str, Any], **others: Any) -> Part:
    """Make a model of plain data that its shape found good. Plain parts are the very dicts of the data, not copies."""
    for field in _fields(model):
        value = data.get(field.name)
        if value is None:
            continue
        if field.model is not None:
            below = field.model
            value = [build(below, item) for item in value] if field.is_list else build(below, value)
        others[field.attribute] = value
    return model(**others)
