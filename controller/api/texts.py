"""Texts from files, folders and standard input: exactly what was named, bounded in size, as UTF-8."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from trainyard.controller.api.problem import Problem

STDIN: Final = "-"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MAX_SIZE: Final = 64 << 20


def read_texts(paths: Sequence[str], stdin: TextIO | None, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    """Give name and text of every file; a file that is named twice is read once."""
    seen: set[Path | str] = set()
    for name in paths:
        try:
            for path in _files(name, problems) if name != STDIN else (STDIN,):
                identity = path.resolve() if isinstance(path, Path) else path
                if identity in seen:
                    continue
                seen.add(identity)
                content = _content(path, stdin)
                if len(content) > _MAX_SIZE:
                    message = f"larger than {_MAX_SIZE >> 20} MiB, which no such document is"
                    problems.append(Problem(path="", message=message, file=str(path)))
                else:
                    yield from _decoded(content, str(path), problems)
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            file = str(getattr(error, "filename", None) or name)
            problems.append(Problem(path="", message=f"cannot be read: {reason}", file=file))


def _content(path: Path | str, stdin: TextIO | None) -> bytes | str:
    """Read a file or standard input, at most one byte more than allowed."""
    if isinstance(path, Path):
        with path.open("rb") as file:
            return file.read(_MAX_SIZE + 1)
    if stdin is None:
        raise ValueError("there is no standard input")
    source: Any = getattr(stdin, "buffer", stdin)
    content: bytes | str = source.read(_MAX_SIZE + 1)
    return content


def _files(name: str, problems: list[Problem]) -> list[Path]:
    if not name:
        raise ValueError("the name is empty")
    path = Path(name)
    if not path.is_dir():
        return [path]
    files = sorted(
        entry
        for entry in path.iterdir()
        if entry.suffix.lower() in _SUFFIXES and not entry.name.startswith(".") and entry.is_file()
    )
    if not files:
        problems.append(Problem(path="", message="this folder has no .yaml, .yml or .json file", file=name))
    return files


def _decoded(content: bytes | str, file: str, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    if isinstance(content, str):
        yield file, content
        return
    try:
        yield file, content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        message = f"expected UTF-8 text, got the byte 0x{byte:02x}"
        problems.append(Problem(path="", message=message, file=file, line=line))
