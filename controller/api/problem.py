"""What is wrong with a document, and where: one `Problem` each, raised together as one `InvalidError`."""

from collections.abc import Iterable
from dataclasses import dataclass

from trainyard.contract.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing that is wrong. `str()` gives `job.yaml:12: spec.trainer.numNodes: expected an integer, got 'two'`."""

    path: str
    """Field path such as `spec.trainer.env[0].name`; empty when the document as a whole is meant."""
    message: str
    """What was found and what was expected."""
    file: str | None = None
    """The file as the user named it, `-` for standard input; None for an object that came from no file."""
    line: int | None = None
    """Line in the file, counted from 1."""
    column: int | None = None
    """Column in the line, counted from 1; only for errors of the YAML syntax."""

    @property
    def place(self) -> str:
        """Say where: `job.yaml:12`, `job.yaml:3:7`, `job.yaml`, or nothing."""
        numbers = (str(number) for number in (self.line, self.column) if number is not None)
        return ":".join((self.file, *numbers)) if self.file is not None else ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.path, self.message) if part)


class InvalidError(ConfigError):
    """An object or a document that cannot be used, with every problem that was found in it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the known name that is most like this one: `; did you mean 'containers'?`, or nothing."""
    meant = nearest_name(name, known)
    return "" if meant is None else f"; did you mean {meant!r}?"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Give the known name that is most like this one, whatever its case and hyphens; None when none is like it."""
    import difflib  # Only bad input needs it.

    by_fold = {_fold(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(_fold(name), by_fold, n=1, cutoff=0.7)
    return by_fold[close[0]] if close else None


def _fold(name: str) -> str:
    return name[:100].lower().replace("_", "").replace("-", "")
