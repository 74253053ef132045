"""Documents from files, folders and standard input: which objects a user named, and where each of their fields stands.

Reads exactly what was named, nothing else. What is wrong with the documents as such (syntax, duplicate keys, two
objects of one name) is raised here, all at once; what is wrong inside an object is for `load`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TextIO

from trainyard.contract import names
from trainyard.controller.api.assignment import apply_set
from trainyard.controller.api.document import Document
from trainyard.controller.api.json_values import json_values
from trainyard.controller.api.problem import InvalidError, Problem, nearest
from trainyard.controller.api.report import describe
from trainyard.controller.api.texts import STDIN, read_texts
from trainyard.controller.api.yaml_tree import Node, find, read_trees, to_data

__all__ = ["Document", "Documents", "apply_set", "read_documents", "read_text"]

DEFAULT_NAMESPACE: Final = "default"
_OURS: Final = (names.TRAIN_JOB, names.TRAINING_RUNTIME, names.CLUSTER_TRAINING_RUNTIME)
_NEEDED: Final = (*_OURS, "Secret", "ConfigMap")
_IGNORED_OF_OURS: Final = ("OptimizationJob",)
_MAX_LIST_DEPTH: Final = 4


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
    found: list[Document] = []
    for file, text in read_texts(paths, stdin, problems):
        found.extend(_documents(text, file, problems))
    return _select(found, problems)


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


def _documents(text: str, file: str, problems: list[Problem]) -> list[Document]:
    """Read all documents of one file and unfold its lists."""
    own: list[Problem] = []
    documents: list[Document] = []
    for root in read_trees(text, file, own):
        documents.extend(_unfold(to_data(root), root, file, own))
    if own and any(problem.column is not None for problem in own) and text.lstrip()[:1] in ("{", "["):
        values = json_values(text)
        if values is not None:
            own = []
            documents = [document for value in values for document in _unfold(value, None, file, own)]
    problems.extend(own)
    return documents


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
    is_in_group = group == names.API_GROUP and document.kind not in _IGNORED_OF_OURS
    if is_in_group or document.kind.lower() in {kind.lower() for kind in _OURS}:
        file, line = document.locate("kind")
        message = f"unknown kind {document.kind!r} in {names.API_GROUP}{nearest(document.kind, _OURS)}"
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
