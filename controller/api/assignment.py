"""`--set spec.trainer.numNodes=2`: change one field of a document before it is validated."""

from typing import Any

from trainyard.contract.errors import ConfigError
from trainyard.controller.api.field_path import Path, format_path, parse_path
from trainyard.controller.api.problem import Problem
from trainyard.controller.api.yaml_tree import read_trees, to_data


def parse_assignment(assignment: str) -> tuple[Path, Any]:
    """Split `path=value`; the value is YAML, so 2 is a number, "2" a string and [a, b] a list. Raises ConfigError."""
    name, equals, text = assignment.partition("=")
    if "[" in name and name.count("[") > name.count("]"):
        closing = assignment.find("=", assignment.find("]"))
        name, equals, text = assignment[:closing], assignment[closing : closing + 1], assignment[closing + 1 :]
    if not equals:
        raise ConfigError(f"--set {assignment!r}: expected FIELD=VALUE such as spec.trainer.numNodes=2")
    try:
        path = parse_path(name.strip())
    except ValueError as error:
        raise ConfigError(f"--set {assignment!r}: {error}") from error
    problems: list[Problem] = []
    roots = list(read_trees(text, "", problems))
    if problems or len(roots) > 1:
        reason = problems[0].message if problems else "expected one YAML value, got several documents"
        raise ConfigError(f"--set {assignment!r}: {reason}")
    return path, to_data(roots[0]) if roots else None


def apply_set(data: dict[str, Any], assignment: str) -> Path:
    """Carry out one assignment on a document's data and give the path that was set.

    Mappings that are missing on the way are made; a list may be extended by one element. Raises ConfigError that names
    the piece which does not fit.
    """
    path, value = parse_assignment(assignment)
    target: Any = data
    for position, piece in enumerate(path):
        here = format_path(path[:position]) or "the document"
        if isinstance(piece, int):
            if not isinstance(target, list):
                raise ConfigError(f"--set {assignment!r}: expected {here} to be a list, got {_kind(target)}")
            if piece > len(target):
                raise ConfigError(
                    f"--set {assignment!r}: {here} has {len(target)} elements, so [{piece}] cannot be set"
                )
            if piece == len(target):
                target.append(None)
        elif not isinstance(target, dict):
            raise ConfigError(f"--set {assignment!r}: expected {here} to be a mapping, got {_kind(target)}")
        if position == len(path) - 1:
            target[piece] = value
        else:
            below = target[piece] if isinstance(piece, int) else target.get(piece)
            if below is None:
                below = target[piece] = [] if isinstance(path[position + 1], int) else {}
            target = below
    return path


def _kind(value: object) -> str:
    return {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value), repr(value))
