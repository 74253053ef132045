"""TrainJob: what a practitioner asks for.

Fields, limits and defaults: Kubeflow Trainer's `trainer.kubeflow.org/v1alpha1`. `load.load_train_job` makes one.
"""

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from trainyard.contract import names
from trainyard.controller.api.loaded import Loaded
from trainyard.controller.api.model import Model, shape_of
from trainyard.controller.api.names_shape import TRAIN_JOB_NAME
from trainyard.controller.api.patch_shape import TRAINING_RUNTIME_SPEC_PATCH
from trainyard.controller.api.pod_shape import ENV, RESOURCES
from trainyard.controller.api.report import Report
from trainyard.controller.api.shape import INT64, OPEN, Integer, ListOf, Text

_LONG_NAME: Final = Text(max_length=253)
_ARGUMENTS: Final = ListOf(item=Text(max_length=1 << 20), max_items=128)
"""The SDK ships the source of functions as arguments, hence their length."""
_STORAGE_URI: Final = Text(
    max_length=2048,
    pattern=re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://.+)?", re.DOTALL),
    expected="SCHEME://something such as hf://org/name or s3://bucket/prefix",
)
_MANAGER: Final = Text(
    min_length=1,
    max_length=253,
    pattern=re.compile(
        r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*/[\w/.~%!$&'()*+,;=:@-]+"
    ),
    expected="a domain and a path such as example.com/name",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeRef(Model):
    """The runtime that a TrainJob builds on."""

    name: Annotated[str, Text(min_length=1, max_length=253)]
    api_group: Annotated[str, _LONG_NAME] = names.API_GROUP
    kind: Annotated[str, _LONG_NAME] = names.CLUSTER_TRAINING_RUNTIME


@dataclass(frozen=True, kw_only=True, slots=True)
class SecretRef(Model):
    """A Secret in the job's namespace, given to the initializer as environment."""

    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class InitializerSource(Model):
    """Where a dataset or a model comes from."""

    storage_uri: Annotated[str | None, _STORAGE_URI] = None
    env: Annotated[list[dict[str, Any]], ENV] = field(default_factory=list)
    """Kubernetes EnvVars, as plain dicts."""
    secret_ref: SecretRef | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Initializer(Model):
    """What is staged before training."""

    dataset: InitializerSource | None = None
    model: InitializerSource | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainer(Model):
    """What the job changes in the runtime's trainer. None means the runtime's; `command: []` empties it."""

    image: Annotated[str | None, Text(max_length=500)] = None
    command: Annotated[list[str] | None, _ARGUMENTS] = None
    args: Annotated[list[str] | None, _ARGUMENTS] = None
    env: Annotated[list[dict[str, Any]], ENV] = field(default_factory=list)
    """Kubernetes EnvVars, as plain dicts."""
    num_nodes: Annotated[int | None, Integer()] = None
    resources_per_node: Annotated[dict[str, Any] | None, RESOURCES] = None
    """Kubernetes ResourceRequirements, merged over the runtime's."""
    num_proc_per_node: Annotated[int | None, Integer(minimum=1)] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimePatch(Model):
    """One manager's changes to the runtime's template."""

    manager: Annotated[str, _MANAGER]
    time: str | None = None
    training_runtime_spec: Annotated[dict[str, Any] | None, TRAINING_RUNTIME_SPEC_PATCH] = None
    """`{template: {metadata, spec: {replicatedJobs: [...]}}}`, checked, as plain dicts."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Labels and annotations for the JobSet."""
        return _below(self.training_runtime_spec, "template", "metadata")

    @property
    def replicated_jobs(self) -> list[dict[str, Any]]:
        """The patches of replicated jobs, in their order."""
        jobs: list[dict[str, Any]] = _below(self.training_runtime_spec, "template", "spec").get("replicatedJobs", [])
        return jobs


def _below(value: dict[str, Any] | None, *path: str) -> dict[str, Any]:
    for piece in path:
        value = (value or {}).get(piece)
    return value or {}


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainJobSpec(Model):
    """The wish."""

    runtime_ref: RuntimeRef
    initializer: Initializer | None = None
    trainer: Trainer | None = None
    runtime_patches: Annotated[
        list[RuntimePatch], ListOf(item=shape_of(RuntimePatch), max_items=16, unique="manager")
    ] = field(default_factory=list)
    suspend: bool = False
    active_deadline_seconds: Annotated[int | None, Integer(minimum=1, maximum=INT64)] = None
    managed_by: Annotated[str, Text(choices=(names.MANAGED_BY_SELF, names.MANAGED_BY_MULTIKUEUE))] = (
        names.MANAGED_BY_SELF
    )


def _name(data: dict[str, Any], report: Report) -> None:
    metadata = data.get("metadata")
    if not isinstance(metadata, dict):
        return
    if metadata.get("name") is not None:
        report.below(TRAIN_JOB_NAME, metadata["name"], "metadata", "name")
    elif metadata.get("generateName") is not None:
        report.add("required; only an API server makes a name from generateName", "metadata", "name")
    else:
        report.add("required, not set", "metadata", "name")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainJob(Loaded):
    """A TrainJob."""

    kind: Annotated[str, Text(choices=(names.TRAIN_JOB,))]
    spec: TrainJobSpec
    status: Annotated[dict[str, Any] | None, OPEN] = None
    rules = (_name,)

    @property
    def namespace(self) -> str:
        """The object's namespace, `default` when it names none."""
        return self.metadata.namespace or "default"
