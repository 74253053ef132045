"""Rows of instruction data to pairs of prompt and response.

| columns                                   | prompt                                                     |
|-------------------------------------------|------------------------------------------------------------|
| instruction, input (may be empty), output | the Alpaca template                                        |
| input, output                             | the input, a newline                                       |
| question, answer                          | the question, a newline                                    |
| prompt, completion                        | the prompt as it is                                        |

`dataset.column_map` names other columns: {'input': 'q', 'output': 'a'}. A system prompt comes first, with an empty
line. Who asks the tuned model must build the prompt in the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainyard.contract.errors import BadDataError, ConfigError

_ALPACA_WITH_INPUT: Final = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n"
)
_ALPACA: Final = (
    "Below is an instruction that describes a task. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Response:\n"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """A shape of instruction data: the columns that it needs and how the prompt is made of them."""

    name: str
    required: tuple[str, ...]
    """The last one is the response."""
    optional: tuple[str, ...] = ()
    separator: str = "\n"
    """Stands between prompt and response."""


SHAPES: Final = (
    Shape(name="alpaca", required=("instruction", "output"), optional=("input",)),
    Shape(name="input/output", required=("input", "output")),
    Shape(name="question/answer", required=("question", "answer")),
    Shape(name="prompt/completion", required=("prompt", "completion"), separator=""),
)
"""In the order in which they are tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """What the rows gave."""

    prompts: list[str]
    responses: list[str]
    shape: str
    """Name of the shape that was recognised."""
    unusable: int
    """Rows left out: a column missing, not text, or an empty response."""
    first_unusable: str | None
    """Which row was left out first, and why."""


def recognise(columns: Sequence[str], column_map: Mapping[str, str]) -> Shape:
    """Choose the shape from the columns.

    Raises BadDataError that says which columns were found, ConfigError for a map that speaks of no known column.
    """
    known = {name for shape in SHAPES for name in (*shape.required, *shape.optional)}
    for name in column_map:
        if name not in known:
            raise ConfigError(f"dataset.column_map: unknown key {name!r}; expected some of {', '.join(sorted(known))}")
    for shape in SHAPES:
        told = not column_map or set(column_map) & set(shape.required)
        if told and all(column_map.get(name, name) in columns for name in shape.required):
            return shape
    asked = ", ".join(f"{key} as {value!r}" for key, value in column_map.items())
    expected = "; ".join(" and ".join(shape.required) for shape in SHAPES)
    raise BadDataError(
        f"dataset: found the columns {', '.join(map(repr, columns)) or 'none'}; expected "
        + (f"{asked} (dataset.column_map) to make one of: {expected}" if column_map else f"one of: {expected}")
    )


def pairs(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    column_map: Mapping[str, str],
    system_prompt: str | None,
) -> Pairs:
    """Turn rows into pairs; rows that cannot be used are counted.

    Raises BadDataError when the columns make no known shape, or no row at all can be used.
    """
    if not rows:
        raise BadDataError("dataset: the data files hold no rows; expected at least one")
    shape = recognise(columns, column_map)
    response_name = shape.required[-1]
    names = {name: column_map.get(name, name) for name in (*shape.required, *shape.optional)}
    system = f"{system_prompt}\n\n" if system_prompt else ""
    prompts: list[str] = []
    responses: list[str] = []
    unusable, first_unusable = 0, None
    for number, row in enumerate(rows):
        values = {name: row.get(column) for name, column in names.items()}
        problem = _problem(shape, names, values)
        if problem is not None:
            unusable += 1
            first_unusable = first_unusable or f"row {number}: {problem}"
            continue
        prompts.append(system + _prompt(shape, values))
        responses.append(str(values[response_name]))
    if not prompts:
        raise BadDataError(
            f"dataset: none of the {len(rows)} rows can be used; the first is {first_unusable or 'missing'}; "
            f"found the columns {', '.join(map(repr, columns)) or 'none'}"
        )
    return Pairs(
        prompts=prompts, responses=responses, shape=shape.name, unusable=unusable, first_unusable=first_unusable
    )


def _problem(shape: Shape, names: Mapping[str, str], values: Mapping[str, Any]) -> str | None:
    for name in shape.required:
        if not isinstance(values[name], str):
            found = "nothing" if values[name] is None else type(values[name]).__name__
            return f"column {names[name]!r}: expected a text, found {found}"
    for name in shape.optional:
        if values[name] is not None and not isinstance(values[name], str):
            return f"column {names[name]!r}: expected a text, found {type(values[name]).__name__}"
    response = shape.required[-1]
    return None if values[response].strip() else f"column {names[response]!r}: the response is empty"


def _prompt(shape: Shape, values: Mapping[str, Any]) -> str:
    if shape.name == "alpaca":
        template = _ALPACA_WITH_INPUT if values["input"] else _ALPACA
        return template.format(instruction=values["instruction"], input=values["input"])
    return f"{values[shape.required[0]]}{shape.separator}"
