"""Names of the environment variables that a plan writes and that containers read.

Kubeflow Trainer's names, so that a TrainJob written for it means the same here. Names of our own are marked.
"""

from typing import Final

# Initializers.
STORAGE_URI: Final = "STORAGE_URI"
IGNORE_PATTERNS: Final = "IGNORE_PATTERNS"
ALLOW_PATTERNS: Final = "ALLOW_PATTERNS"
"""Ours: comma-separated globs; only matching files are staged."""
ACCESS_TOKEN: Final = "ACCESS_TOKEN"
ENDPOINT: Final = "ENDPOINT"
ACCESS_KEY_ID: Final = "ACCESS_KEY_ID"
SECRET_ACCESS_KEY: Final = "SECRET_ACCESS_KEY"
REGION: Final = "REGION"
ROLE_ARN: Final = "ROLE_ARN"
OUTPUT_PATH: Final = "OUTPUT_PATH"
"""Where an initializer stages, or where a trainer writes; the SDK's local backends send it."""
REPLACE: Final = "REPLACE"
"""Ours: `true` lets an initializer replace a folder that was staged from another source."""

# torchrun reads these when the flag of that name is not given.
PET_NNODES: Final = "PET_NNODES"
PET_NPROC_PER_NODE: Final = "PET_NPROC_PER_NODE"
PET_NODE_RANK: Final = "PET_NODE_RANK"
PET_MASTER_ADDR: Final = "PET_MASTER_ADDR"
PET_MASTER_PORT: Final = "PET_MASTER_PORT"

# JAX.
JAX_NUM_PROCESSES: Final = "JAX_NUM_PROCESSES"
JAX_PROCESS_ID: Final = "JAX_PROCESS_ID"
JAX_COORDINATOR_ADDRESS: Final = "JAX_COORDINATOR_ADDRESS"

# XGBoost (the names of the DMLC tracker).
DMLC_TRACKER_URI: Final = "DMLC_TRACKER_URI"
DMLC_TRACKER_PORT: Final = "DMLC_TRACKER_PORT"
DMLC_TASK_ID: Final = "DMLC_TASK_ID"
DMLC_NUM_WORKER: Final = "DMLC_NUM_WORKER"

# MPI (Open MPI 4 reads these).
OMPI_MCA_ORTE_DEFAULT_HOSTFILE: Final = "OMPI_MCA_orte_default_hostfile"
OMPI_MCA_ORTE_KEEP_FQDN_HOSTNAMES: Final = "OMPI_MCA_orte_keep_fqdn_hostnames"
OMPI_MCA_ORTE_SET_DEFAULT_SLOTS: Final = "OMPI_MCA_orte_set_default_slots"
OMPI_MCA_PLM_RSH_ARGS: Final = "OMPI_MCA_plm_rsh_args"

# Progress: where a container reports to (`contract.progress`).
SERVER_URL: Final = "KUBEFLOW_TRAINER_SERVER_URL"
SERVER_CA_CERT: Final = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
SERVER_TOKEN: Final = "KUBEFLOW_TRAINER_SERVER_TOKEN"

# Kubernetes' own.
JOB_COMPLETION_INDEX: Final = "JOB_COMPLETION_INDEX"

# Ours, read by every container of ours.
LORA_CONFIG: Final = "LORA_CONFIG"
"""JSON with PEFT's names: {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"]}."""
TERMINATION_LOG_PATH: Final = "TERMINATION_LOG_PATH"
"""File for the termination message; default `/dev/termination-log`."""
LOG_FORMAT: Final = "LOG_FORMAT"
"""`text` (default) or `json`."""
LOG_LEVEL: Final = "LOG_LEVEL"
"""`DEBUG`, `INFO` (default), `WARNING`, `ERROR`."""
FAILURE_DIR: Final = "TRAINYARD_FAILURE_DIR"
"""Set by the launcher shims: a folder where each failing rank leaves its own record (`contract.failure`)."""

RESERVED_TORCH: Final = (PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR, PET_MASTER_PORT)
RESERVED_MPI: Final = (
    OMPI_MCA_ORTE_DEFAULT_HOSTFILE,
    OMPI_MCA_PLM_RSH_ARGS,
    OMPI_MCA_ORTE_KEEP_FQDN_HOSTNAMES,
    OMPI_MCA_ORTE_SET_DEFAULT_SLOTS,
)
RESERVED_XGBOOST: Final = (DMLC_TRACKER_URI, DMLC_TRACKER_PORT, DMLC_TASK_ID, DMLC_NUM_WORKER)
