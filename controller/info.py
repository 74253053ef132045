"""What a plan is about: the TrainJob, and the runtime's jobs as pod sets that plugins read and change.

`Info` is a value: every change gives a new one. Plugins see pod sets and containers, never the JobSet's nesting; the
JobSet plugin turns them back into a JobSet at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final

from trainyard.contract import labels, names
from trainyard.controller.api.problem import Problem
from trainyard.controller.api.runtime import MlPolicy, PodGroupPolicy, TrainingRuntime
from trainyard.controller.api.train_job import TrainJob
from trainyard.controller.container import Container, Manifest, upsert
from trainyard.controller.features import Features

ML_POLICIES: Final = tuple(each.name for each in fields(MlPolicy) if each.name != "num_nodes")
POD_GROUP_POLICIES: Final = tuple(each.name for each in fields(PodGroupPolicy))


@dataclass(frozen=True, kw_only=True, slots=True)
class PodSet:
    """One replicated job: pods that look alike."""

    name: str
    """The replicated job's name."""
    ancestor: str | None
    """What it does for the TrainJob: `dataset-initializer`, `model-initializer`, `trainer`, or None for a helper."""
    count: int
    """Pods of one replica that run at a time; a trainer's number of nodes. 0 means no pods."""
    own_completions: int | None
    """Pods of one replica that must succeed, where a helper has its own number (design 5.18); None: `count`."""
    replicas: int
    """Copies of the job; 1 for every job with a known ancestor."""
    manifest: Manifest
    """The replicated job as the runtime and its patches say; the fields below win over what is in it."""
    containers: tuple[Container, ...]
    """Main containers in order."""
    init_containers: tuple[Container, ...] = ()
    """Init containers in order, sidecars among them."""
    volumes: tuple[Manifest, ...] = ()
    """Volumes of the pod, in order."""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that plugins add to the pods."""
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations that plugins add to the pods."""

    @property
    def job_spec(self) -> Manifest:
        """Give the Job's spec as the runtime and its patches say."""
        spec: Manifest = (self.manifest.get("template") or {}).get("spec") or {}
        return spec

    @property
    def pod_spec(self) -> Manifest:
        """Give the pods' spec as the runtime and its patches say."""
        spec: Manifest = (self.job_spec.get("template") or {}).get("spec") or {}
        return spec

    @property
    def completions(self) -> int:
        """Give the Job's completions."""
        return self.count if self.own_completions is None else self.own_completions

    def container(self, name: str) -> Container | None:
        """Find a main container by name."""
        return next((container for container in self.containers if container.name == name), None)

    def any_container(self, name: str) -> Container | None:
        """Find a main or init container by name."""
        return self.container(name) or next((c for c in self.init_containers if c.name == name), None)

    @property
    def main_container(self) -> Container | None:
        """Find the container that the TrainJob's own values go to: `node` in a trainer, else the ancestor's name."""
        return None if self.ancestor is None else self.container(names.CONTAINER_OF_ANCESTOR[self.ancestor])

    def with_container(self, container: Container) -> PodSet:
        """Put a changed container in the place of the one of its name."""
        return replace(
            self,
            containers=tuple(container if old.name == container.name else old for old in self.containers),
            init_containers=tuple(container if old.name == container.name else old for old in self.init_containers),
        )

    def with_volumes(self, volumes: Iterable[Manifest]) -> PodSet:
        """Upsert volumes by name."""
        merged = upsert(self.volumes, volumes, lambda old, new: old.get("name") == new.get("name"))
        return replace(self, volumes=tuple(merged))


@dataclass(frozen=True, kw_only=True, slots=True)
class Info:
    """The whole of what plugins know."""

    train_job: TrainJob
    """The TrainJob as it was written."""
    runtime: TrainingRuntime
    """The runtime as it was written."""
    features: Features
    """What is switched on."""
    labels: Mapping[str, str]
    """Labels of the JobSet: the runtime template's, with those of patches over them."""
    annotations: Mapping[str, str]
    """Annotations of the JobSet, likewise."""
    job_set_spec: Manifest
    """The JobSet's spec as the runtime and its patches say; `pod_sets` stands for its replicatedJobs."""
    pod_sets: tuple[PodSet, ...]
    """The replicated jobs in the runtime's order."""
    template: tuple[PodSet, ...]
    """The same as the runtime and its patches say, without the TrainJob's own values and without plugins."""

    @property
    def name(self) -> str:
        """Give the TrainJob's name, which is the JobSet's too."""
        return self.train_job.name

    @property
    def namespace(self) -> str:
        """Give the namespace of all objects."""
        return self.train_job.namespace

    @property
    def subdomain(self) -> str:
        """Give the DNS subdomain of the pods: the runtime's, else the JobSet's name."""
        return str((self.job_set_spec.get("network") or {}).get("subdomain") or self.name)

    @property
    def ml_policy(self) -> str:
        """Name the framework that the runtime's mlPolicy is for: `torch`, ...; empty when it names none."""
        return _named(self.runtime.spec.ml_policy, ML_POLICIES)

    @property
    def pod_group_policy(self) -> str:
        """Name the scheduler that the runtime's podGroupPolicy is for; empty when it names none."""
        return _named(self.runtime.spec.pod_group_policy, POD_GROUP_POLICIES)

    @property
    def trainer(self) -> PodSet | None:
        """Find the job that trains (the first, if a runtime has several)."""
        return next(iter(self.pod_sets_of(names.TRAINER)), None)

    def problem(self, path: str, message: str) -> Problem:
        """Say what is wrong with a field of the TrainJob."""
        return self.train_job.problem(path, message)

    def runtime_problem(self, path: str, message: str) -> Problem:
        """Say what is wrong with a field of the runtime."""
        return self.runtime.problem(path, f"runtime {self.runtime.name!r}: {message}")

    def pod_set(self, name: str) -> PodSet | None:
        """Find a pod set by its replicated job's name."""
        return next((pod_set for pod_set in self.pod_sets if pod_set.name == name), None)

    def pod_sets_of(self, ancestor: str) -> tuple[PodSet, ...]:
        """Find the pod sets that do one thing for the TrainJob."""
        return tuple(pod_set for pod_set in self.pod_sets if pod_set.ancestor == ancestor)

    def with_pod_set(self, pod_set: PodSet) -> Info:
        """Put a changed pod set in the place of the one of its name."""
        return replace(self, pod_sets=tuple(pod_set if old.name == pod_set.name else old for old in self.pod_sets))

    def hostname(self, pod_set: PodSet, *, replica: int = 0, index: int = 0) -> str:
        """Give one pod's DNS name."""
        return f"{names.pod_hostname(self.name, pod_set.name, replica, index)}.{self.subdomain}"

    def endpoints(self, pod_set: PodSet) -> Iterator[str]:
        """Give the DNS names of all pods of a set, by replica and index."""
        for replica in range(pod_set.replicas):
            for index in range(pod_set.count):
                yield self.hostname(pod_set, replica=replica, index=index)


def _named(policy: MlPolicy | PodGroupPolicy | None, choices: tuple[str, ...]) -> str:
    return next((name for name in choices if getattr(policy, name, None) is not None), "")


def ancestor_of(replicated_job: Manifest) -> str | None:
    """Read a replicated job's ancestor step; None when it has none that we know."""
    metadata = (replicated_job.get("template") or {}).get("metadata") or {}
    ancestor = (metadata.get("labels") or {}).get(labels.ANCESTOR_STEP)
    return ancestor if ancestor in names.ANCESTORS else None
