"""Data files to rows: parquet, JSON (one array) and JSONL (one object a line), single files or folders of them.

What `dataset.data_dir`, `dataset.data_files`, `dataset.source` and `dataset.split` mean is decided here.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainyard.contract.errors import BadDataError, ConfigError, SourceNotFoundError, UnsupportedError

FORMATS: Final = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".ndjson": "json"}
"""File ending to the format's name, as `dataset.source` spells it."""
_NOT_DATA: Final = frozenset({"dataset_info.json", "dataset_infos.json", "state.json", "dataset_dict.json"})
_SPLIT: Final = re.compile(r"(?P<name>\w+)(\[(?P<from>\d+%?)?:(?P<to>\d+%?)?\])?")

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """The rows of a data set and the names of their columns."""

    columns: tuple[str, ...]
    """Column names in the order in which they first appear."""
    rows: list[Row]
    files: tuple[Path, ...]
    """Where the rows came from, in order."""


def read(data_dir: Path, data_files: tuple[str, ...], source: str | None, split: str) -> Table:
    """Read every row of the data set, in the order of the file names.

    Raises SourceNotFoundError when no such file exists, BadDataError naming the file and line that cannot be read.
    """
    name, part = _parse_split(split)
    files = find_files(data_dir, data_files, source, name)
    rows: list[Row] = []
    columns: dict[str, None] = {}
    for file in files:
        new_columns, new_rows = _read_parquet(file) if file.suffix == ".parquet" else _read_json(file)
        columns.update(dict.fromkeys(new_columns))
        rows.extend(new_rows)
    start, stop = part(len(rows))
    return Table(columns=tuple(columns), rows=rows[start:stop], files=files)


def find_files(data_dir: Path, data_files: tuple[str, ...], source: str | None, split: str) -> tuple[Path, ...]:
    """Find the data files: those named (paths or patterns), else those below `data_dir`.

    Of a folder whose files carry the names of splits (train-00000.parquet, test.jsonl, train/0.parquet) only the asked
    split is taken; a folder with no such names is taken whole.
    """
    formats = {ending for ending, name in FORMATS.items() if source is None or name == source}
    if not formats:
        raise UnsupportedError(
            f"dataset.source: {source!r} is not supported; expected {' or '.join(sorted(set(FORMATS.values())))}, with "
            "the files staged below dataset.data_dir by the dataset initializer (nothing is fetched while training)"
        )
    if data_files:
        return tuple(found for pattern in data_files for found in _named(data_dir, pattern))
    if data_dir.is_file():
        return (data_dir,)
    if not data_dir.is_dir():
        raise SourceNotFoundError(f"dataset.data_dir: {str(data_dir)!r}: no such folder")
    found = tuple(
        sorted(
            file
            for file in data_dir.rglob("*")
            if file.suffix in formats
            and file.name not in _NOT_DATA
            and not any(part.startswith(".") for part in file.relative_to(data_dir).parts)
            and file.is_file()
        )
    )
    if not found:
        raise SourceNotFoundError(
            f"dataset.data_dir: {str(data_dir)!r}: no file in it ends in {', '.join(sorted(formats))}"
        )
    return _of_split(found, data_dir, split)


def _named(data_dir: Path, pattern: str) -> list[Path]:
    path = data_dir / pattern  # An absolute pattern stays what it is.
    if path.is_file():
        return [path]
    root, relative = (
        (Path(path.anchor), str(path.relative_to(path.anchor))) if path.is_absolute() else (Path(), str(path))
    )
    found = sorted(root.glob(relative)) if any(letter in pattern for letter in "*?[") else []
    if not found:
        raise SourceNotFoundError(f"dataset.data_files: {str(path)!r}: no such file")
    return found


def _of_split(files: tuple[Path, ...], root: Path, split: str) -> tuple[Path, ...]:
    known = ("train", "test", "validation", "valid", "val", "dev", "eval")

    def splits_of(file: Path) -> set[str]:
        words = re.split(r"[^A-Za-z]+", str(file.relative_to(root).with_suffix("")).lower())
        return {word for word in words if word in known or word == split.lower()}

    named = {file: splits_of(file) for file in files}
    if not any(named.values()):
        return files
    chosen = tuple(file for file in files if split.lower() in named[file])
    if not chosen:
        found = sorted(set().union(*named.values()))
        raise SourceNotFoundError(f"dataset.split: no file below {str(root)!r} belongs to {split!r}; found {found}")
    return chosen


def _parse_split(split: str) -> tuple[str, Any]:
    """Read `train`, `train[:100]`, `train[10%:20%]`: the split's name, and the range of a number of rows."""
    match = _SPLIT.fullmatch(split)
    if match is None:
        raise ConfigError(f"dataset.split: expected a name such as train, or train[:5%], got {split!r}")

    def bound(text: str | None, count: int, default: int) -> int:
        if text is None:
            return default
        return round(count * int(text[:-1]) / 100) if text.endswith("%") else min(int(text), count)

    return match["name"], lambda count: (bound(match["from"], count, 0), bound(match["to"], count, count))


def _read_parquet(file: Path) -> tuple[Iterable[str], list[Row]]:
    # Imported here: 0.2 s, and JSON needs none of it.
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(file)
    except (pyarrow.ArrowException, OSError) as error:
        raise BadDataError(f"{file}: not a parquet file that can be read: {str(error).splitlines()[0]}") from error
    return table.column_names, table.to_pylist()


def _read_json(file: Path) -> tuple[Iterable[str], list[Row]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadDataError(f"{file}: not UTF-8 at byte {error.start}") from error
    rows = _json_array(file, text) if text.lstrip().startswith("[") else _json_lines(file, text)
    columns: dict[str, None] = {}
    for row in rows:
        columns.update(dict.fromkeys(row))
    return columns, rows


def _json_array(file: Path, text: str) -> list[Row]:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise BadDataError(f"{file}: not valid JSON: {error}") from error
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise BadDataError(f"{file}: item {number}: expected an object, found {type(row).__name__}")
    return list(rows)


def _json_lines(file: Path, text: str) -> list[Row]:
    rows = []
    # Not splitlines: a JSON string may hold a U+2028 as it is.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise BadDataError(f"{file}:{number}: not valid JSON: {error}") from error
        if not isinstance(row, dict):
            raise BadDataError(f"{file}:{number}: expected an object, found {type(row).__name__}")
        rows.append(row)
    return rows
