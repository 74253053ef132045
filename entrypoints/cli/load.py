"""From FILE arguments to TrainJobs with their runtimes: the way that run, render and lint share.

documents (files, folders, standard input) -> `--set` -> typed TrainJobs -> the runtime of each, looked for in the
stream, then in `--runtime`, then among the shipped ones. What is wrong is collected, so that it is reported at once.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainyard.contract.errors import ConfigError, TrainyardError
from trainyard.contract.names import CLUSTER_TRAINING_RUNTIME, TRAINING_RUNTIME
from trainyard.controller.api.documents import Document, Documents, read_documents
from trainyard.controller.api.load import load_runtime, load_train_job
from trainyard.controller.api.problem import InvalidError, Problem
from trainyard.controller.api.runtime import TrainingRuntime
from trainyard.controller.api.train_job import TrainJob
from trainyard.controller.runtimes import find_runtime, shipped_runtimes


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One TrainJob, with its runtime."""

    train_job: TrainJob
    """As asked for, `--set` applied."""
    runtime: TrainingRuntime | None
    """What its runtimeRef names; None where there is no such runtime, which is among the problems."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """All that the files hold that concerns us."""

    requests: tuple[Request, ...]
    """TrainJobs that could be read, in their order."""
    runtimes: tuple[TrainingRuntime, ...]
    """Runtimes of the stream and of `--runtime` that could be read."""
    secrets: tuple[dict[str, Any], ...]
    """Secrets of the stream."""
    config_maps: tuple[dict[str, Any], ...]
    """ConfigMaps of the stream."""
    problems: tuple[Problem, ...]
    """What is wrong, in the order found."""


def read_input(
    files: Sequence[str],
    *,
    sets: Sequence[str] = (),
    runtime_paths: Sequence[str] = (),
    namespace: str | None = None,
    before_load: Callable[[Document], None] | None = None,
) -> Input:
    """Read everything; raises InvalidError only where not even the documents can be read.

    `before_load` may change a TrainJob before it is validated; local runs turn bare paths into URIs.
    """
    documents = read_documents(files, sys.stdin)
    problems: list[Problem] = []
    broken: set[tuple[str, str, str]] = set()
    in_stream = _load_runtimes(documents, namespace, problems, broken)
    extra: tuple[TrainingRuntime, ...] = ()
    if runtime_paths:
        found = read_documents(runtime_paths, sys.stdin)
        if not found.runtimes:
            raise ConfigError(f"--runtime: no TrainingRuntime or ClusterTrainingRuntime in {', '.join(runtime_paths)}")
        extra = _load_runtimes(found, namespace, problems, broken)
    shipped = shipped_runtimes()
    requests = []
    for document in documents.train_jobs:
        try:
            train_job = _load_train_job(document, sets, namespace, before_load)
        except TrainyardError as error:
            problems.extend(map(_with_hint, problems_of(error)) if before_load is None else problems_of(error))
            continue
        runtime = None
        ref = train_job.spec.runtime_ref
        if (ref.kind, "" if ref.kind == CLUSTER_TRAINING_RUNTIME else train_job.namespace, ref.name) not in broken:
            try:
                runtime = find_runtime(train_job, from_stream=in_stream, extra=extra, shipped=shipped)
            except TrainyardError as error:
                problems.extend(problems_of(error))
        requests.append(Request(train_job=train_job, runtime=runtime))
    return Input(
        requests=tuple(requests),
        runtimes=(*in_stream, *extra),
        secrets=tuple(document.data for document in documents.secrets),
        config_maps=tuple(document.data for document in documents.config_maps),
        problems=tuple(dict.fromkeys(problems)),
    )


def problems_of(error: TrainyardError) -> tuple[Problem, ...]:
    """Give an error's problems; one that knows only a sentence becomes one problem."""
    return error.problems if isinstance(error, InvalidError) else (Problem(path="", message=str(error)),)


def _with_hint(problem: Problem) -> Problem:
    """Tell who wrote a plain path as a source, which `run` takes, why a cluster does not."""
    if not problem.path.endswith(".storageUri") or not problem.message.startswith("expected SCHEME"):
        return problem
    return replace(problem, message=f"{problem.message}; a plain path is for `trainyard run` on one machine")


def _load_runtimes(
    documents: Documents, namespace: str | None, problems: list[Problem], broken: set[tuple[str, str, str]]
) -> tuple[TrainingRuntime, ...]:
    """Load runtimes; those that cannot be used are added to `broken`, so that nobody says they are missing."""
    runtimes = []
    for document in documents.runtimes:
        metadata = document.data.get("metadata")
        if namespace and document.kind == TRAINING_RUNTIME and isinstance(metadata, dict):
            document.namespace = metadata["namespace"] = metadata.get("namespace") or namespace
        try:
            runtimes.append(load_runtime(document))
        except TrainyardError as error:
            problems.extend(problems_of(error))
            broken.add((document.kind, document.namespace, document.name))
    return tuple(runtimes)


def _load_train_job(
    document: Document, sets: Sequence[str], namespace: str | None, before_load: Callable[[Document], None] | None
) -> TrainJob:
    for assignment in sets:
        document.set(assignment)
    metadata = document.data.get("metadata")
    if namespace is not None and isinstance(metadata, dict):
        named = metadata.get("namespace")
        if named not in (None, "", namespace):
            file, line = document.locate("metadata.namespace")
            message = f"expected {namespace!r} as --namespace says, got {named!r}"
            raise InvalidError([Problem(path="metadata.namespace", message=message, file=file, line=line)])
        metadata["namespace"] = document.namespace = namespace
    if before_load is not None:
        before_load(document)
    return load_train_job(document)
