"""TrainingRuntime and ClusterTrainingRuntime: what a platform offers, one model for both kinds.

The JobSet template stays a plain dict, because the plan transforms dicts; `job_set_shape` checks it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from trainyard.contract import names
from trainyard.controller.api.job_set_shape import JOB_SET_SPEC
from trainyard.controller.api.loaded import Loaded
from trainyard.controller.api.metadata import TemplateMeta
from trainyard.controller.api.model import Model, shape_of
from trainyard.controller.api.names_shape import DNS_NAME, EMBEDDED_METADATA
from trainyard.controller.api.report import Report
from trainyard.controller.api.shape import Integer, ListOf, Text

_PROCESSES: Final = Integer(minimum=1)


def _at_most_one(*choices: str) -> Callable[[dict[str, Any], Report], None]:
    def check(data: dict[str, Any], report: Report) -> None:
        given = [name for name in choices if data.get(name) is not None]
        if len(given) > 1:
            report.add(f"expected at most one of {', '.join(choices)}, got {' and '.join(given)}")

    return check


def _containers_once(data: dict[str, Any], report: Report) -> None:
    containers = data.get("containerNames")
    for index, name in enumerate(containers if isinstance(containers, list) else ()):
        if name == names.NODE:
            report.add("the container 'node' gets the variables anyway; remove it", "containerNames", index)


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvInjectionTarget(Model):
    """Containers of one job, besides `node`, that get the PET variables."""

    job_name: Annotated[str, Text(min_length=1, max_length=253)]
    container_names: Annotated[
        list[str], ListOf(item=Text(min_length=1, max_length=63), min_items=1, max_items=8, unique="")
    ]
    rules = (_containers_once,)


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvInjection(Model):
    """Where Torch's variables go besides the trainer's container."""

    targets: Annotated[
        list[EnvInjectionTarget], ListOf(item=shape_of(EnvInjectionTarget), max_items=16, unique="jobName")
    ] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchPolicy(Model):
    """PyTorch with torchrun."""

    env_injection: EnvInjection | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MpiPolicy(Model):
    """MPI over SSH."""

    num_proc_per_node: Annotated[int, _PROCESSES] = 1
    mpi_implementation: Annotated[str, Text(choices=("OpenMPI", ""))] = "OpenMPI"
    """Empty means OpenMPI."""
    ssh_auth_mount_path: Annotated[str, Text(max_length=4096)] = "/root/.ssh"
    run_launcher_as_node: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class JaxPolicy(Model):
    """JAX. Has no fields."""


@dataclass(frozen=True, kw_only=True, slots=True)
class XGBoostPolicy(Model):
    """XGBoost. Has no fields."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FluxPolicy(Model):
    """Flux."""

    num_proc_per_node: Annotated[int, _PROCESSES] = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class MlPolicy(Model):
    """How the trainer's pods form one training; with none of the frameworks it is plain."""

    num_nodes: Annotated[int | None, Integer()] = None
    torch: TorchPolicy | None = None
    mpi: MpiPolicy | None = None
    jax: JaxPolicy | None = None
    xgboost: XGBoostPolicy | None = None
    flux: FluxPolicy | None = None
    rules = (_at_most_one("torch", "mpi", "jax", "xgboost", "flux"),)


@dataclass(frozen=True, kw_only=True, slots=True)
class Coscheduling(Model):
    """A PodGroup of scheduler-plugins."""

    schedule_timeout_seconds: Annotated[int, Integer()] = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkTopology(Model):
    """Volcano's network topology."""

    mode: Annotated[str, Text(choices=("hard", "soft"))] = "hard"
    highest_tier_allowed: Annotated[int, Integer()] = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Volcano(Model):
    """A PodGroup of Volcano."""

    network_topology: NetworkTopology | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PodGroupPolicy(Model):
    """All pods of a training start together or not at all."""

    coscheduling: Coscheduling | None = None
    volcano: Volcano | None = None
    rules = (_at_most_one("coscheduling", "volcano"),)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSetTemplate(Model):
    """The JobSet that a TrainJob becomes."""

    metadata: Annotated[TemplateMeta, EMBEDDED_METADATA] = field(default_factory=TemplateMeta)
    spec: Annotated[dict[str, Any], JOB_SET_SPEC] = field(default_factory=dict)
    """JobSetSpec v1alpha2, checked, as a plain dict: a plan copies what it changes."""


def _not_empty(data: dict[str, Any], report: Report) -> None:
    if not data:
        report.add("expected at least one of mlPolicy, podGroupPolicy and template, got an empty mapping")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRuntimeSpec(Model):
    """What the runtime gives."""

    ml_policy: MlPolicy | None = None
    pod_group_policy: PodGroupPolicy | None = None
    template: JobSetTemplate = field(default_factory=JobSetTemplate)
    rules = (_not_empty,)


def _name(data: dict[str, Any], report: Report) -> None:
    metadata = data.get("metadata")
    if isinstance(metadata, dict):
        if metadata.get("name") is None:
            report.add("required, not set", "metadata", "name")
        else:
            report.below(DNS_NAME, metadata["name"], "metadata", "name")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRuntime(Loaded):
    """A TrainingRuntime or ClusterTrainingRuntime; `kind` tells."""

    kind: Annotated[str, Text(choices=(names.TRAINING_RUNTIME, names.CLUSTER_TRAINING_RUNTIME))]
    spec: TrainingRuntimeSpec
    rules = (_name,)

    @property
    def is_cluster_scoped(self) -> bool:
        """Say whether it belongs to no namespace."""
        return self.kind == names.CLUSTER_TRAINING_RUNTIME

    @property
    def namespace(self) -> str:
        """The object's namespace; empty for a ClusterTrainingRuntime."""
        return "" if self.is_cluster_scoped else self.metadata.namespace or "default"

    @property
    def replicated_jobs(self) -> list[dict[str, Any]]:
        """The template's replicated jobs, in their order."""
        jobs: list[dict[str, Any]] = self.spec.template.spec.get("replicatedJobs", [])
        return jobs
