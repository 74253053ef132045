"""Paths inside containers. They are part of Kubeflow Trainer's contract, not places on the host."""

from typing import Final

WORKSPACE: Final = "/workspace"
DATASET: Final = "/workspace/dataset"
MODEL: Final = "/workspace/model"
OUTPUT: Final = "/workspace/output"
MPI_HOSTFILE: Final = "/etc/mpi/hostfile"
TOKEN_DIR: Final = "/var/run/secrets/kubeflow/trainer"
TOKEN_FILE: Final = "/var/run/secrets/kubeflow/trainer/token"
CA_FILE: Final = "/var/run/secrets/kubeflow/trainer/ca.crt"
TERMINATION_LOG: Final = "/dev/termination-log"

# A staged or written folder is complete exactly when this file exists in it (`storage.manifest`).
MANIFEST: Final = ".trainyard-manifest.json"

# What a trainer leaves below its output folder.
ADAPTER: Final = "adapter"
MERGED: Final = "merged"
METRICS: Final = "metrics.jsonl"
LOSS_PICTURE: Final = "loss.png"
RESOLVED_CONFIG: Final = "config.yaml"
