"""TrainJob: what a practitioner asks for.

Fields, limits and defaults: Kubeflow Trainer's `trainer.kubeflow.org/v1alpha1`. Load it with `load.load_train_job`,
which also checks the parts that stay plain dicts here.
"""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, SkipValidation

from trainyard.contract import names
from trainyard.controller.api.loaded_model import LoadedModel
from trainyard.controller.api.report import describe
from trainyard.controller.api.strict_model import Int32, Int64, Plain, PlainList, StrictModel

_STORAGE_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+", re.DOTALL)
_MANAGER: Final = re.compile(
    r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*/[A-Za-z0-9/._~%!$&'()*+,;=:@-]+"
)
MAX_ARGUMENTS: Final = 128
MAX_ARGUMENT_LENGTH: Final = 1 << 20


def _storage_uri(value: str) -> str:
    if value and _STORAGE_URI.fullmatch(value) is None:
        raise ValueError(
            f"expected SCHEME://something such as hf://org/name or s3://bucket/prefix, got {describe(value)}"
        )
    return value


def _manager(value: str) -> str:
    if _MANAGER.fullmatch(value) is None:
        raise ValueError(f"expected a domain and a path such as example.com/name, got {describe(value)}")
    return value


def _no_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("a string must not contain a NUL character")
    return value


Argument = Annotated[str, Field(max_length=MAX_ARGUMENT_LENGTH), AfterValidator(_no_nul)]
Arguments = Annotated[list[Argument], Field(max_length=MAX_ARGUMENTS)]


class RuntimeRef(StrictModel):
    """The runtime that a TrainJob builds on."""

    name: str = Field(min_length=1, max_length=253)
    api_group: str = Field(default=names.API_GROUP, max_length=253)
    kind: str = Field(default=names.CLUSTER_TRAINING_RUNTIME, max_length=253)


class SecretRef(StrictModel):
    """A Secret in the job's namespace, given to the initializer as environment."""

    name: str = ""


class InitializerSource(StrictModel):
    """Where a dataset or a model comes from."""

    storage_uri: Annotated[str, Field(max_length=2048), AfterValidator(_storage_uri)] | None = None
    env: PlainList = Field(default_factory=list)
    """Kubernetes EnvVars, as plain dicts."""
    secret_ref: SecretRef | None = None


class Initializer(StrictModel):
    """What is staged before training."""

    dataset: InitializerSource | None = None
    model: InitializerSource | None = None


class Trainer(StrictModel):
    """What the job changes in the runtime's trainer. None means the runtime's; `command: []` empties it."""

    image: Annotated[str, Field(max_length=500)] | None = None
    command: Arguments | None = None
    args: Arguments | None = None
    env: PlainList = Field(default_factory=list)
    """Kubernetes EnvVars, as plain dicts."""
    num_nodes: Annotated[Int32, Field(ge=0)] | None = None
    resources_per_node: Plain | None = None
    """Kubernetes ResourceRequirements, merged over the runtime's."""
    num_proc_per_node: Annotated[Int32, Field(ge=1)] | None = None


class RuntimePatch(StrictModel):
    """One manager's changes to the runtime's template."""

    manager: Annotated[str, Field(min_length=1, max_length=253), AfterValidator(_manager)]
    time: str | None = None
    training_runtime_spec: Plain | None = None
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


class TrainJobSpec(StrictModel):
    """The wish."""

    runtime_ref: RuntimeRef
    initializer: Initializer | None = None
    trainer: Trainer | None = None
    runtime_patches: Annotated[list[RuntimePatch], Field(max_length=16)] = Field(default_factory=list)
    suspend: bool = False
    active_deadline_seconds: Annotated[Int64, Field(ge=1)] | None = None
    managed_by: Literal["trainer.kubeflow.org/trainjob-controller", "kueue.x-k8s.io/multikueue"] = names.MANAGED_BY_SELF


class TrainJob(LoadedModel):
    """A TrainJob."""

    kind: Literal["TrainJob"]
    spec: TrainJobSpec
    status: Annotated[dict[str, Any] | None, SkipValidation] = None

    @property
    def namespace(self) -> str:
        """The object's namespace, `default` when it names none."""
        return self.metadata.namespace or "default"
