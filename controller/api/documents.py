"""Documents from files, folders and standard input: which objects a user named, and where each of their fields stands.

Reads exactly what was named, nothing else. What is wrong with the documents as such (syntax, duplicate keys, two
objects of one name) is raised here, all at once; what is wrong inside an object is for `load`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from trainyard.contract import names
from trainyard.controller.api.assignment import apply_set
from trainyard.controller.api.field_path import Path as FieldPath
from trainyard.controller.api.field_path import parse_path
from trainyard.controller.api.problem import InvalidError, Problem, nearest
from trainyard.controller.api.report import describe
from trainyard.controller.api.yaml_tree import Node, Scalar, find, read_trees, to_data

__all__ = ["Document", "Documents", "apply_set", "read_documents", "read_text"]

DEFAULT_NAMESPACE: Final = "default"
STDIN: Final = "-"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_OURS: Final = (names.TRAIN_JOB, names.TRAINING_RUNTIME, names.CLUSTER_TRAINING_RUNTIME)
_NEEDED: Final = (*_OURS, "Secret", "ConfigMap")
_IGNORED_OF_OURS: Final = ("OptimizationJob",)
_MAX_LIST_DEPTH: Final = 4
_MAX_SIZE: Final = 64 << 20


@dataclass(kw_only=True, slots=True)
class Document:
    """One object of a stream. `data` is as it was written; `set` changes it before it is loaded."""

    kind: str
    namespace: str
    """`default` when the object names none; empty for a ClusterTrainingRuntime."""
    name: str
    """Empty when the object has none; `load` reports that."""
    data: dict[str, Any]
    file: str | None = None
    """As the user named it, `-` for standard input."""
    node: Node | None = None
    """The tree behind `data`; None for what was read as JSON."""
    assigned: dict[FieldPath, str] = field(default_factory=dict)
    """What `--set` changed, and the assignment that did."""

    @property
    def api_version(self) -> str:
        """The apiVersion as written, or nothing."""
        value = self.data.get("apiVersion")
        return value if isinstance(value, str) else ""

    def locate(self, path: str | FieldPath) -> tuple[str | None, int | None]:
        """Give file and line of a field, or of its nearest parent that is there."""
        try:
            pieces = parse_path(path) if isinstance(path, str) and path else tuple(path)
        except ValueError:
            pieces = ()
        for length in range(len(pieces), 0, -1):
            if pieces[:length] in self.assigned:
                return f"--set {self.assigned[pieces[:length]]}", None
        return self.file, None if self.node is None else find(self.node, pieces)[0]

    def spelling(self, path: FieldPath) -> str | None:
        """Give a value as it was written, such as `yes` for true; None when that is not known."""
        node = None if self.node is None or path in self.assigned else find(self.node, path)[1]
        return node.text if isinstance(node, Scalar) else None

    def set(self, assignment: str) -> None:
        """Carry out `--set FIELD=VALUE`; raise ConfigError that names the piece which does not fit."""
        self.assigned[apply_set(self.data, assignment)] = assignment

    @property
    def place(self) -> str:
        """Say where the object begins: `job.yaml:12`."""
        line = None if self.node is None else self.node.line
        return ":".join(str(part) for part in (self.file, line) if part is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Documents:
    """The objects of all named files in their order."""

    all: tuple[Document, ...]
    """Objects of the kinds that we use."""
    ignored: tuple[Document, ...] = ()
    """Objects of other kinds."""

    def of_kind(self, *kinds: str) -> tuple[Document, ...]:
        """Give the documents of these kinds."""
        return tuple(document for document in self.all if document.kind in kinds)

    @property
    def train_jobs(self) -> tuple[Document, ...]:
        """TrainJobs."""
        return self.of_kind(names.TRAIN_JOB)

    @property
    def runtimes(self) -> tuple[Document, ...]:
        """TrainingRuntimes and ClusterTrainingRuntimes."""
        return self.of_kind(names.TRAINING_RUNTIME, names.CLUSTER_TRAINING_RUNTIME)

    @property
    def secrets(self) -> tuple[Document, ...]:
        """Secrets of the core API."""
        return self.of_kind("Secret")

    @property
    def config_maps(self) -> tuple[Document, ...]:
        """ConfigMaps of the core API."""
        return self.of_kind("ConfigMap")


def read_documents(paths: Sequence[str], stdin: TextIO | None = None) -> Documents:
    """Read files, folders (their .yaml, .yml and .json files, not deeper) and `-`.

    Raises InvalidError with the problems of all of them.
    """
    problems: list[Problem] = []
    return _select(
        [document for file, text in _texts(paths, stdin, problems) for document in _documents(text, file, problems)],
        problems,
    )


def read_text(text: str, file: str = STDIN) -> Documents:
    """Read documents from a text that is at hand already."""
    problems: list[Problem] = []
    return _select(_documents(text, file, problems), problems)


def _select(found: Sequence[Document], problems: list[Problem]) -> Documents:
    """Keep the kinds that we use; raise InvalidError if anything was wrong up to here, or a name stands twice."""
    needed: list[Document] = []
    ignored: list[Document] = []
    for document in found:
        (needed if _is_needed(document, problems) else ignored).append(document)
    _check_duplicates(needed, problems)
    if problems:
        raise InvalidError(problems)
    return Documents(all=tuple(needed), ignored=tuple(ignored))


def _texts(paths: Sequence[str], stdin: TextIO | None, problems: list[Problem]) -> Iterator[tuple[str, str]]:
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


def _documents(text: str, file: str, problems: list[Problem]) -> list[Document]:
    """Read all documents of one file and unfold its lists."""
    own: list[Problem] = []
    documents: list[Document] = []
    for root in read_trees(text, file, own):
        documents.extend(_unfold(to_data(root), root, file, own))
    if own and any(problem.column is not None for problem in own) and text.lstrip()[:1] in ("{", "["):
        values = _json_values(text)
        if values is not None:
            own = []
            documents = [document for value in values for document in _unfold(value, None, file, own)]
    problems.extend(own)
    return documents


def _json_values(text: str) -> list[Any] | None:
    """Read one JSON value after another; some JSON is not YAML: `\\ud83d\\ude00`, or objects without `---`."""
    import json  # Only odd input needs it.

    decoder = json.JSONDecoder()
    values, position = [], 0
    try:
        text.encode("utf-8")
        while position < len(text):
            if text[position] in " \t\r\n":
                position += 1
                continue
            value, position = decoder.raw_decode(text, position)
            json.dumps(value, ensure_ascii=False).encode("utf-8")
            values.append(value)
    except (ValueError, RecursionError):
        return None
    return values


def _unfold(data: Any, node: Node | None, file: str, problems: list[Problem], depth: int = 0) -> Iterator[Document]:
    """Give a document, or those inside of a List."""
    line = None if node is None else node.line
    if not isinstance(data, dict):
        message = f"expected an object with apiVersion, kind and metadata, got {describe(data)}"
        problems.append(Problem(path="", message=message, file=file, line=line))
        return
    kind = data.get("kind")
    if (
        isinstance(kind, str)
        and kind.endswith("List")
        and isinstance(data.get("items"), list)
        and depth < _MAX_LIST_DEPTH
    ):
        for index, item in enumerate(data["items"]):
            if isinstance(item, dict) and kind != "List":
                item.setdefault("kind", kind.removesuffix("List"))
                item.setdefault("apiVersion", data.get("apiVersion"))
            below = None if node is None else find(node, ("items", index))[1]
            yield from _unfold(item, below, file, problems, depth + 1)
        return
    if not isinstance(kind, str) or not kind:
        message = "required, not set" if kind is None else f"expected a string, got {describe(kind)}"
        where = find(node, ("kind",))[0] if node is not None else None
        problems.append(Problem(path="kind", message=message, file=file, line=where))
        return
    metadata = data.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if kind == names.CLUSTER_TRAINING_RUNTIME:
        namespace = ""
    elif not isinstance(namespace, str) or not namespace:
        namespace = DEFAULT_NAMESPACE
    yield Document(
        kind=kind, namespace=namespace, name=name if isinstance(name, str) else "", data=data, file=file, node=node
    )


def _is_needed(document: Document, problems: list[Problem]) -> bool:
    """Say whether the kind is one that we use; one that was meant to be ours and is misspelt is a problem."""
    group = document.api_version.partition("/")[0]
    if document.kind in _OURS:
        return True
    if document.kind in _NEEDED:
        return document.api_version in ("v1", "")
    suggestion = nearest(document.kind, _OURS)
    if (group == names.API_GROUP and document.kind not in _IGNORED_OF_OURS) or document.kind.lower() in {
        kind.lower() for kind in _OURS
    }:
        file, line = document.locate("kind")
        message = f"unknown kind {document.kind!r} in {names.API_GROUP}{suggestion}"
        problems.append(Problem(path="kind", message=message, file=file, line=line))
    return False


def _check_duplicates(documents: Iterable[Document], problems: list[Problem]) -> None:
    first: dict[tuple[str, str, str], Document] = {}
    for document in documents:
        key = (document.kind, document.namespace, document.name)
        if not document.name:
            continue
        if (other := first.setdefault(key, document)) is not document:
            where = f" in namespace {document.namespace!r}" if document.namespace else ""
            file, line = document.locate("metadata.name")
            message = f"a second {document.kind} {document.name!r}{where}; the first is at {other.place}"
            problems.append(Problem(path="metadata.name", message=message, file=file, line=line))
