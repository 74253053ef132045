"""Collects what is wrong with one object while it is walked, and knows how to put it."""

from collections.abc import Iterable
from typing import Any, Final, Protocol

from trainyard.controller.api.field_path import Path, format_path
from trainyard.controller.api.problem import InvalidError, Problem, nearest_name

_LONGEST: Final = 60
_FEW: Final = 8
"""So many known names are listed when none is like the unknown one."""


class Source(Protocol):
    """Where an object was read from."""

    def locate(self, path: str | Path) -> tuple[str | None, int | None]:
        """Give file and line of a field."""
        ...

    def spelling(self, path: Path) -> str | None:
        """Give a value as it was written, such as `yes` for true."""
        ...


class Checker(Protocol):
    """A `shape.Shape`."""

    def check(self, value: Any, report: "Report") -> None:
        """Add what is wrong with the value."""
        ...


def describe(value: Any) -> str:
    """Say what was found: `'two'`, `the number 2`, `a list`."""
    if isinstance(value, str):
        return repr(value) if len(value) <= _LONGEST else f"{value[:_LONGEST]!r}... ({len(value)} characters)"
    if isinstance(value, bool):
        return "the boolean true" if value else "the boolean false"
    if isinstance(value, int | float):
        return f"the number {value}" if not isinstance(value, int) or abs(value) < 10**20 else "a huge number"
    if isinstance(value, dict):
        return "a mapping"
    return "nothing" if value is None else "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


class Report:
    """The problems of one object. `path` is where the walk stands; whoever goes down appends and pops."""

    def __init__(self, source: Source | None = None) -> None:
        self.path: list[str | int] = []
        self.problems: list[Problem] = []
        self._source = source

    def add(self, message: str, *below: str | int) -> None:
        """Add a problem at the current path, or at a field below it."""
        path = (*self.path, *below)
        file, line = (None, None) if self._source is None else self._source.locate(path)
        self.problems.append(Problem(path=format_path(path), message=message, file=file, line=line))

    def expected(self, what: str, value: Any, *below: str | int) -> None:
        """Add `expected a string, got ...`, with a hint where YAML made something else of what was written."""
        self.add(f"expected {what}, got {self._found(what, value, (*self.path, *below))}", *below)

    def below(self, shape: Checker, value: Any, *below: str | int) -> None:
        """Check a value that stands below the current path."""
        self.path.extend(below)
        shape.check(value, self)
        del self.path[len(self.path) - len(below) :]

    def required(self, name: str) -> None:
        """Add that a field below the current path is missing."""
        self.add("required, not set", name)

    def unknown(self, name: Any, known: Iterable[str]) -> str | None:
        """Add that a field below the current path does not exist; give the name that was probably meant."""
        if isinstance(name, str):
            known = tuple(known)
            meant = nearest_name(name, known)
            few = f"; expected one of {', '.join(known)}" if 0 < len(known) <= _FEW else ""
            self.add(f"unknown field{few if meant is None else f'; did you mean {meant!r}?'}", name)
            return meant
        self.add(f"expected a string as key, got {describe(name)}")
        return None

    def _found(self, what: str, value: Any, path: Path) -> str:
        found = describe(value)
        if "string" in what and isinstance(value, bool | int | float):
            written = None if self._source is None else self._source.spelling(path)
            text = str(written if written is not None else value if not isinstance(value, bool) else str(value).lower())
            read_as = ""
            if isinstance(value, bool) and text.lower() not in ("true", "false"):
                read_as = f" (YAML reads {text} as {str(value).lower()})"
            return f"{found}{read_as}; write it in quotes: '{text}'"
        if isinstance(value, str) and what.startswith("an integer") and value.strip().lstrip("+-").isdecimal():
            return f"the string {found}; remove the quotes"
        if isinstance(value, str) and what.startswith("true or false") and value.lower() in ("true", "false"):
            return f"the string {found}; remove the quotes"
        return found

    def finish(self) -> None:
        """Raise InvalidError with everything found, in the order of the file, if anything was."""
        if self.problems:
            raise InvalidError(sorted(self.problems, key=lambda problem: problem.line or 0))
