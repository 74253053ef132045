"""TrainingRuntime and ClusterTrainingRuntime: what a platform offers, one model for both kinds.

The JobSet template stays a plain dict, because the plan transforms dicts; `job_set_shape` checks it.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from trainyard.controller.api.loaded_model import LoadedModel
from trainyard.controller.api.metadata import TemplateMeta
from trainyard.controller.api.strict_model import Int32, Plain, StrictModel

ContainerName = Annotated[str, Field(min_length=1, max_length=63)]
ML_POLICIES: Final = ("torch", "mpi", "jax", "xgboost", "flux")
POD_GROUP_POLICIES: Final = ("coscheduling", "volcano")


class EnvInjectionTarget(StrictModel):
    """Containers besides `node` that get the PET variables."""

    job_name: str = Field(min_length=1, max_length=253)
    container_names: Annotated[list[ContainerName], Field(min_length=1, max_length=8)]


class EnvInjection(StrictModel):
    """Where Torch's variables go besides the trainer's container."""

    targets: Annotated[list[EnvInjectionTarget], Field(max_length=16)] = Field(default_factory=list)


class TorchPolicy(StrictModel):
    """PyTorch with torchrun."""

    env_injection: EnvInjection | None = None


class MpiPolicy(StrictModel):
    """MPI over SSH."""

    num_proc_per_node: Annotated[Int32, Field(ge=1)] = 1
    mpi_implementation: Literal["OpenMPI", ""] = "OpenMPI"
    """Empty means OpenMPI."""
    ssh_auth_mount_path: str = Field(default="/root/.ssh", max_length=4096)
    run_launcher_as_node: bool = False


class JaxPolicy(StrictModel):
    """JAX. Has no fields."""


class XGBoostPolicy(StrictModel):
    """XGBoost. Has no fields."""


class FluxPolicy(StrictModel):
    """Flux."""

    num_proc_per_node: Annotated[Int32, Field(ge=1)] = 1


class MlPolicy(StrictModel):
    """How the trainer's pods form one training; with none of the frameworks it is plain."""

    num_nodes: Annotated[Int32, Field(ge=0)] | None = None
    torch: TorchPolicy | None = None
    mpi: MpiPolicy | None = None
    jax: JaxPolicy | None = None
    xgboost: XGBoostPolicy | None = None
    flux: FluxPolicy | None = None


class Coscheduling(StrictModel):
    """A PodGroup of scheduler-plugins."""

    schedule_timeout_seconds: Annotated[Int32, Field(ge=0)] = 60


class NetworkTopology(StrictModel):
    """Volcano's network topology."""

    mode: Literal["hard", "soft"] = "hard"
    highest_tier_allowed: Annotated[Int32, Field(ge=0)] = 1


class Volcano(StrictModel):
    """A PodGroup of Volcano."""

    network_topology: NetworkTopology | None = None


class PodGroupPolicy(StrictModel):
    """All pods of a training start together or not at all."""

    coscheduling: Coscheduling | None = None
    volcano: Volcano | None = None


class JobSetTemplate(StrictModel):
    """The JobSet that a TrainJob becomes."""

    metadata: TemplateMeta = Field(default_factory=TemplateMeta)
    spec: Plain = Field(default_factory=dict)
    """JobSetSpec v1alpha2, checked, as a plain dict: a plan copies what it changes."""


class TrainingRuntimeSpec(StrictModel):
    """What the runtime gives."""

    ml_policy: MlPolicy | None = None
    pod_group_policy: PodGroupPolicy | None = None
    template: JobSetTemplate = Field(default_factory=JobSetTemplate)


class TrainingRuntime(LoadedModel):
    """A TrainingRuntime or ClusterTrainingRuntime; `kind` tells."""

    kind: Literal["TrainingRuntime", "ClusterTrainingRuntime"]
    spec: TrainingRuntimeSpec

    @property
    def is_cluster_scoped(self) -> bool:
        """Say whether it belongs to no namespace."""
        return self.kind == "ClusterTrainingRuntime"

    @property
    def namespace(self) -> str:
        """The object's namespace; empty for a ClusterTrainingRuntime."""
        return "" if self.is_cluster_scoped else self.metadata.namespace or "default"

    @property
    def replicated_jobs(self) -> list[dict[str, Any]]:
        """The template's replicated jobs, in their order."""
        jobs: list[dict[str, Any]] = self.spec.template.spec.get("replicatedJobs", [])
        return jobs
