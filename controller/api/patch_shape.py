"""What a runtimePatch may change: few fields of the template, not images, commands or resources."""

from typing import Final

from trainyard.controller.api.names_shape import EMBEDDED_METADATA
from trainyard.controller.api.pod_shape import (
    ENV,
    NODE_SELECTOR,
    POD_SECURITY_CONTEXT,
    PULL_SECRETS,
    SCHEDULING_GATES,
    SECURITY_CONTEXT,
    TOLERATIONS,
    VOLUME_MOUNT,
    VOLUMES,
)
from trainyard.controller.api.shape import OPEN, SECONDS, TEXT, ListOf, Record, Text

_NAME: Final = Text(min_length=1)
_CONTAINERS: Final = ListOf(
    item=Record(
        fields={
            "name": _NAME,
            "env": ENV,
            "volumeMounts": ListOf(item=VOLUME_MOUNT, max_items=128, unique="mountPath"),
            "securityContext": SECURITY_CONTEXT,
        },
        required=("name",),
    ),
    max_items=64,
    unique="name",
)
_POD_SPEC: Final = Record(
    fields={
        "serviceAccountName": TEXT,
        "volumes": ListOf(item=VOLUMES.item, max_items=128, unique="name"),
        "initContainers": _CONTAINERS,
        "containers": _CONTAINERS,
        "imagePullSecrets": ListOf(item=PULL_SECRETS.item, max_items=64, unique="name"),
        "securityContext": POD_SECURITY_CONTEXT,
        "terminationGracePeriodSeconds": SECONDS,
        "nodeSelector": NODE_SELECTOR,
        "affinity": OPEN,
        "tolerations": ListOf(item=TOLERATIONS.item, max_items=128),
        "schedulingGates": ListOf(item=SCHEDULING_GATES.item, max_items=16, unique="name"),
    }
)
_POD_TEMPLATE: Final = Record(fields={"metadata": EMBEDDED_METADATA, "spec": _POD_SPEC})
_JOB_TEMPLATE: Final = Record(
    fields={"metadata": EMBEDDED_METADATA, "spec": Record(fields={"template": _POD_TEMPLATE})}
)
_REPLICATED_JOB: Final = Record(fields={"name": _NAME, "template": _JOB_TEMPLATE}, required=("name",))
_JOB_SET: Final = Record(fields={"replicatedJobs": ListOf(item=_REPLICATED_JOB, unique="name")})

TRAINING_RUNTIME_SPEC_PATCH: Final = Record(
    fields={"template": Record(fields={"metadata": EMBEDDED_METADATA, "spec": _JOB_SET})}
)
"""`spec.runtimePatches[].trainingRuntimeSpec`."""
