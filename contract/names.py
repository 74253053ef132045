"""Names that both sides rely on: kinds, jobs, containers, volumes, companions, ports."""

from typing import Final

API_GROUP: Final = "trainer.kubeflow.org"
API_VERSION: Final = "trainer.kubeflow.org/v1alpha1"
TRAIN_JOB: Final = "TrainJob"
TRAINING_RUNTIME: Final = "TrainingRuntime"
CLUSTER_TRAINING_RUNTIME: Final = "ClusterTrainingRuntime"
JOBSET_API_VERSION: Final = "jobset.x-k8s.io/v1alpha2"
JOBSET: Final = "JobSet"

FIELD_OWNER: Final = "trainer"
MANAGED_BY_SELF: Final = "trainer.kubeflow.org/trainjob-controller"
MANAGED_BY_MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"

# Replicated jobs and ancestor steps.
DATASET_INITIALIZER: Final = "dataset-initializer"
MODEL_INITIALIZER: Final = "model-initializer"
NODE: Final = "node"
LAUNCHER: Final = "launcher"
TRAINER: Final = "trainer"
"""Ancestor step of the job that trains; its container is called `node`."""
ANCESTORS: Final = (DATASET_INITIALIZER, MODEL_INITIALIZER, TRAINER)
CONTAINER_OF_ANCESTOR: Final = {
    DATASET_INITIALIZER: DATASET_INITIALIZER,
    MODEL_INITIALIZER: MODEL_INITIALIZER,
    TRAINER: NODE,
}

INITIALIZER_VOLUME: Final = "initializer"
TOKEN_VOLUME: Final = "kubeflow-trainer-token"

MASTER_PORT: Final = 29500
SSHD_PORT: Final = 2222
STATUS_PORT: Final = 10443

# Condition types and reasons of a TrainJob.
SUSPENDED: Final = "Suspended"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
REASON_SUSPENDED: Final = "Suspended"
REASON_RESUMED: Final = "Resumed"
REASON_DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
REASON_RUNTIME_NOT_SUPPORTED: Final = "TrainingRuntimeNotSupported"
EVENT_CREATION_FAILED: Final = "TrainJobResourcesCreationFailed"


def runtime_snapshot(train_job: str) -> str:
    """Name the ConfigMap that holds the runtime as the job was admitted with it."""
    return f"{train_job}-runtime-snapshot"


RUNTIME_SNAPSHOT_KEY: Final = "runtime"


def mpi_ssh_auth(train_job: str) -> str:
    """Name the Secret with the SSH key of an MPI job."""
    return f"{train_job}-mpi-ssh-auth"


def mpi_hostfile(train_job: str) -> str:
    """Name the ConfigMap with the hostfile of an MPI job."""
    return f"{train_job}-mpi-hostfile"


def tls_config(train_job: str) -> str:
    """Name the ConfigMap with the status server's CA."""
    return f"{train_job}-tls-config"


def pod_hostname(job_set: str, replicated_job: str, replica: int, index: int) -> str:
    """Name a pod's host; its DNS name is this, a dot, and the subdomain (JobSet's rule)."""
    return f"{job_set}-{replicated_job}-{replica}-{index}"
