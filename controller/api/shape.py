"""Shapes of plain data: what a table says about a value, checked in one walk that finds every problem.

The typed parts of our kinds are models (`model`). What stays plain dicts (JobSet and pod templates, env, resources,
patches) is checked with these: a table of known names and types is shorter and faster than sixty models, and copies
nothing.
A null is the same as an absent field, as in Kubernetes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from trainyard.controller.api.quantity import parse_quantity
from trainyard.controller.api.report import Report

INT32: Final = 2**31 - 1
INT64: Final = 2**63 - 1


class Shape(Protocol):
    """What a value must look like."""

    def check(self, value: Any, report: Report) -> None:
        """Add what is wrong with a value that is not null to the report, at the report's path."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A string."""

    max_length: int | None = None
    min_length: int = 0
    pattern: re.Pattern[str] | None = None
    """The whole string must match."""
    expected: str = "a string"
    """How to call what the pattern wants."""
    choices: tuple[str, ...] = ()

    def check(self, value: Any, report: Report) -> None:
        """Check type, length, pattern, choices."""
        if not isinstance(value, str):
            report.expected(f"a string, {self._wanted()}" if self.choices else "a string", value)
        elif self.choices and value not in self.choices:
            report.expected(self._wanted(), value)
        elif self.max_length is not None and len(value) > self.max_length:
            report.add(f"expected at most {self.max_length} characters, got {len(value)}")
        elif len(value) < self.min_length:
            report.add("must not be empty")
        elif self.pattern is not None and self.pattern.fullmatch(value) is None:
            report.expected(self.expected, value)
        elif "\0" in value:
            report.add("a string must not contain a NUL character")

    def _wanted(self) -> str:
        return f"{'one of ' * (len(self.choices) > 1)}{', '.join(map(repr, self.choices))}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Integer:
    """An integer within bounds, both included."""

    minimum: int = 0
    maximum: int = INT32

    def check(self, value: Any, report: Report) -> None:
        """Check type and bounds."""
        if not isinstance(value, int) or isinstance(value, bool):
            report.expected("an integer", value)
        elif value < self.minimum:
            report.expected(f"an integer of at least {self.minimum}", value)
        elif value > self.maximum:
            report.expected(f"an integer of at most {self.maximum}", value)


class Boolean:
    """True or false."""

    def check(self, value: Any, report: Report) -> None:
        """Check the type."""
        if not isinstance(value, bool):
            report.expected("true or false", value)


class Amount:
    """A quantity: a string, or a number as the SDK sends it."""

    def check(self, value: Any, report: Report) -> None:
        """Check that the quantity can be read and is not negative."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            report.expected("a quantity such as 2, 500m or 16Gi", value)
            return
        try:
            quantity = parse_quantity(value)
        except ValueError as error:
            report.add(str(error))
        else:
            if quantity.nanos < 0:
                report.add(f"expected a quantity of at least 0, got {value!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class IntegerOrText:
    """A number or a name, such as a port, or `25%`."""

    def check(self, value: Any, report: Report) -> None:
        """Check the type."""
        if isinstance(value, bool) or not isinstance(value, int | str):
            report.expected("an integer or a string", value)


class Open:
    """A mapping that Kubernetes knows and we pass on unread."""

    def check(self, value: Any, report: Report) -> None:
        """Check that it is a mapping with names as keys."""
        if not isinstance(value, dict):
            report.expected("a mapping", value)
            return
        for key in value:
            if not isinstance(key, str):
                report.unknown(key, ())


class Anything:
    """Any value."""

    def check(self, value: Any, report: Report) -> None:
        """Check nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MapOf:
    """A mapping from free names to values of one shape."""

    item: Shape
    key: Text | None = None
    max_items: int | None = None

    def check(self, value: Any, report: Report) -> None:
        """Check all keys and values."""
        if not isinstance(value, dict):
            report.expected("a mapping", value)
            return
        if self.max_items is not None and len(value) > self.max_items:
            report.add(f"expected at most {self.max_items} entries, got {len(value)}")
        for name, item in value.items():
            if not isinstance(name, str):
                report.unknown(name, ())
                continue
            report.path.append(name)
            if self.key is not None:
                self.key.check(name, report)
            if item is not None:
                self.item.check(item, report)
            report.path.pop()


@dataclass(frozen=True, kw_only=True, slots=True)
class ListOf:
    """A list of values of one shape."""

    item: Shape
    max_items: int | None = None
    min_items: int = 0
    unique: str | None = None
    """Field of the items that must not occur twice; `""` means the items themselves."""

    def check(self, value: Any, report: Report) -> None:
        """Check the size, every item, and that no key occurs twice."""
        if not isinstance(value, list):
            example = f" such as [{value[:20]!r}]" if isinstance(value, str) and value.isprintable() else ""
            report.expected(f"a list{example}", value)
            return
        if self.max_items is not None and len(value) > self.max_items:
            report.add(f"expected at most {self.max_items} elements, got {len(value)}")
        if len(value) < self.min_items:
            report.add(f"expected at least {self.min_items} element{'s' * (self.min_items > 1)}, got {len(value)}")
        for index, item in enumerate(value):
            report.path.append(index)
            self.item.check(item, report)
            report.path.pop()
        if self.unique is not None:
            self._check_unique(value, self.unique, report)

    def _check_unique(self, value: list[Any], unique: str, report: Report) -> None:
        first: dict[str, int] = {}
        for index, item in enumerate(value):
            key = item if not unique else item.get(unique) if isinstance(item, dict) else None
            if isinstance(key, str) and first.setdefault(key, index) != index:
                where = (index, unique) if unique else (index,)
                report.add(f"{key!r} stands here and in element [{first[key]}]; expected each only once", *where)


Rule = Callable[[dict[str, Any], Report], None]
"""Checks what the fields of one mapping mean together. It may meet fields of wrong types."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A mapping with known fields."""

    fields: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    def check(self, value: Any, report: Report) -> None:
        """Check names, required fields, every field, and the rules."""
        if not isinstance(value, dict):
            report.expected("a mapping", value)
            return
        path = report.path
        meant: set[str | None] = set()
        for name, item in value.items():
            shape = self.fields.get(name)
            if shape is None:
                meant.add(report.unknown(name, self.fields))
            elif item is not None:
                path.append(name)
                shape.check(item, report)
                path.pop()
        for name in self.required:
            if value.get(name) is None and name not in meant:
                report.required(name)
        for rule in self.rules:
            rule(value, report)


TEXT: Final = Text()
TEXTS: Final = ListOf(item=TEXT)
BOOLEAN: Final = Boolean()
COUNT: Final = Integer()
SECONDS: Final = Integer(maximum=INT64)
AMOUNT: Final = Amount()
OPEN: Final = Open()
ANYTHING: Final = Anything()
