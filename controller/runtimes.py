"""Find the runtime that a TrainJob names: in the stream it came with, among given ones, among those that we ship."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import Final

import yaml

from trainyard.contract import names
from trainyard.controller.api.load import load_runtime
from trainyard.controller.api.problem import InvalidError, Problem
from trainyard.controller.api.runtime import TrainingRuntime
from trainyard.controller.api.train_job import RuntimeRef, TrainJob

_PACKAGE: Final = "trainyard.runtimes"
_KINDS: Final = (names.CLUSTER_TRAINING_RUNTIME, names.TRAINING_RUNTIME)
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Shipped(Mapping[str, TrainingRuntime]):
    """Runtimes by name, each read when it is asked for: reading all would cost `render` a tenth of a second."""

    def __init__(self) -> None:
        files = resources.files(_PACKAGE).iterdir()
        self._files = {file.name.removesuffix(".yaml"): file for file in files if file.name.endswith(".yaml")}
        self._loaded: dict[str, TrainingRuntime] = {}

    def __getitem__(self, name: str) -> TrainingRuntime:
        if name not in self._loaded:
            data = yaml.load(self._files[name].read_text(encoding="utf-8"), Loader=_Loader)
            self._loaded[name] = load_runtime(data)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._files))

    def __len__(self) -> int:
        return len(self._files)


def shipped_runtimes() -> Mapping[str, TrainingRuntime]:
    """Give the ClusterTrainingRuntimes that come with trainyard, by name."""
    return _Shipped()


def check_reference(train_job: TrainJob) -> Iterator[Problem]:
    """Refuse kinds of runtimes that there are not."""
    ref = train_job.spec.runtime_ref
    if ref.api_group != names.API_GROUP or ref.kind not in _KINDS:
        field = "kind" if ref.api_group == names.API_GROUP else "apiGroup"
        yield train_job.problem(
            f"spec.runtimeRef.{field}",
            f"unsupported runtime: {ref.kind}.{ref.api_group}; expected {' or '.join(_KINDS)} of {names.API_GROUP}",
        )


def find_runtime(
    train_job: TrainJob,
    *,
    from_stream: Iterable[TrainingRuntime] = (),
    extra: Iterable[TrainingRuntime] = (),
    shipped: Mapping[str, TrainingRuntime] | None = None,
) -> TrainingRuntime:
    """Find the runtime of `spec.runtimeRef`; raise InvalidError that suggests names near it.

    The stream's runtimes win over given ones, and those over shipped ones. A TrainingRuntime must be in the job's
    namespace.
    """
    problems = tuple(check_reference(train_job))
    if problems:
        raise InvalidError(problems)
    ref = train_job.spec.runtime_ref
    shipped = shipped_runtimes() if shipped is None else shipped
    # Both kinds by name, so that a wrong kind can be told from a wrong name.
    known: dict[str, dict[str, TrainingRuntime | None]] = {kind: {} for kind in _KINDS}
    known[names.CLUSTER_TRAINING_RUNTIME] = dict.fromkeys(shipped)
    for runtime in reversed((*from_stream, *extra)):
        if runtime.is_cluster_scoped or runtime.namespace == train_job.namespace:
            known[runtime.kind][runtime.name] = runtime
    if ref.name in known[ref.kind]:
        return known[ref.kind][ref.name] or shipped[ref.name]
    raise InvalidError([train_job.problem("spec.runtimeRef.name", _missing(ref, train_job.namespace, known))])


def _missing(ref: RuntimeRef, namespace: str, known: Mapping[str, Mapping[str, object]]) -> str:
    where = f" in namespace {namespace!r}" if ref.kind == names.TRAINING_RUNTIME else ""
    there = sorted(known[ref.kind])
    near = difflib.get_close_matches(ref.name, there, n=3, cutoff=0.5)
    other = next((kind for kind in _KINDS if ref.name in known[kind]), None)
    if other is not None:
        hint = f"there is a {other} of this name, which spec.runtimeRef.kind would have to say"
    elif near:
        hint = f"did you mean {' or '.join(map(repr, near))}?"
    else:
        hint = f"known are {', '.join(there) or 'none'}"
    return f"no {ref.kind} {ref.name!r}{where}; it must exist before the TrainJob; {hint}"
