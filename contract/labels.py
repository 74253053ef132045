"""Labels and annotations: Kubeflow Trainer's, JobSet's, Kubernetes' and our own."""

from typing import Final

# Kubeflow Trainer.
ANCESTOR_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
"""On a replicated job's template: dataset-initializer, model-initializer or trainer."""
FRAMEWORK: Final = "trainer.kubeflow.org/framework"
"""On a runtime: torch, torchtune, deepspeed, mlx, jax, xgboost; the SDK picks its trainer by it."""
SUPPORT: Final = "trainer.kubeflow.org/support"
SUPPORT_DEPRECATED: Final = "deprecated"
WEBHOOK_VALIDATION: Final = "trainer.kubeflow.org/webhook-validation"
WEBHOOK_VALIDATION_DISABLED: Final = "disabled"

# JobSet, on every Job and pod that it makes.
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
REPLICATED_JOB_NAME: Final = "jobset.sigs.k8s.io/replicatedjob-name"
REPLICATED_JOB_REPLICAS: Final = "jobset.sigs.k8s.io/replicatedjob-replicas"
GLOBAL_REPLICAS: Final = "jobset.sigs.k8s.io/global-replicas"
RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
JOB_GLOBAL_INDEX: Final = "jobset.sigs.k8s.io/job-global-index"
JOB_KEY: Final = "jobset.sigs.k8s.io/job-key"
GROUP_NAME: Final = "jobset.sigs.k8s.io/group-name"

# Kubernetes.
JOB_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"

# Schedulers.
COSCHEDULING_POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
VOLCANO_QUEUE: Final = "scheduling.volcano.sh/queue-name"
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"

# Ours.
MODEL: Final = "trainyard/model"
"""On a torchtune runtime: `auto` (any model directory) or a model such as `llama3_2/1B`."""
MODEL_AUTO: Final = "auto"
