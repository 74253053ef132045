"""Which files of a source are wanted: globs on the path relative to the source.

The globs are those of huggingface_hub and of Kubeflow's initializers: `*` also matches `/`, so `*.bin` means at any
depth; case counts; `folder/` means everything below it. A file is wanted when some allow pattern matches (or there is
none) and no ignore pattern does.
"""

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from trainyard.contract.errors import SourceNotFoundError
from trainyard.storage.source import SourceFile

_SHOWN: Final = 8
"""How many names an error shows of what there was."""


class Selection(Protocol):
    """Decides which listed files are staged."""

    def describe(self) -> dict[str, Any]:
        """Give the request in words of JSON; two equal ones choose alike. Kept in the manifest."""
        ...

    def choose(self, files: Iterable[SourceFile], source: str) -> Iterator[SourceFile]:
        """Pass the wanted files on; raises SourceNotFoundError, naming `source`, when there is none."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Patterns:
    """Selection by allow and ignore globs."""

    allow: tuple[str, ...] = ()
    """Only matching files; empty: all."""
    ignore: tuple[str, ...] = ()
    """No matching file; stronger than `allow`."""

    def describe(self) -> dict[str, Any]:
        """Give both lists."""
        return {"allow": sorted(set(self.allow)), "ignore": sorted(set(self.ignore))}

    def choose(self, files: Iterable[SourceFile], source: str) -> Iterator[SourceFile]:
        """Filter as the files come; says what there was when nothing matched."""
        allowed = matcher(self.allow)
        ignored = matcher(self.ignore)
        chosen = 0
        seen = Sample()
        for file in files:
            if (not self.allow or allowed(file.path)) and not ignored(file.path):
                chosen += 1
                yield file
            elif not chosen:
                seen.add(file.path)
        if not chosen:
            raise nothing_chosen(source, seen, allow=self.allow, ignore=self.ignore)


class Sample:
    """The first few names of a listing and how many there were."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._count = 0

    def add(self, name: str) -> None:
        """Count a name, keep it if it is among the first."""
        self._count += 1
        if len(self._names) < _SHOWN:
            self._names.append(name)

    def __bool__(self) -> bool:
        return self._count > 0

    def __str__(self) -> str:
        more = f" and {self._count - len(self._names)} more" if self._count > len(self._names) else ""
        return ", ".join(repr(name) for name in self._names) + more


def nothing_chosen(
    source: str, seen: Sample, *, allow: Sequence[str] = (), ignore: Sequence[str] = ()
) -> SourceNotFoundError:
    """Say why nothing is staged: the source is empty, or the patterns leave nothing of what there was."""
    if not seen:
        return SourceNotFoundError(f"{source}: it is empty, expected at least one file")
    rules = [f"{word} {', '.join(globs)}" for word, globs in (("allow", allow), ("ignore", ignore)) if globs]
    return SourceNotFoundError(f"{source}: no file is left by the patterns ({'; '.join(rules)}); it has {seen}")


def matcher(globs: Sequence[str]) -> "_Matches":
    """Compile globs into one question about a path."""
    parts = [fnmatch.translate(f"{glob}*" if glob.endswith("/") else glob) for glob in globs]
    return _Matches(re.compile("|".join(parts)) if parts else None)


@dataclass(frozen=True, slots=True)
class _Matches:
    expression: re.Pattern[str] | None

    def __call__(self, path: str) -> bool:
        return self.expression is not None and self.expression.match(path) is not None
