"""What a runtime must have for a TrainJob with initializers."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.contract import labels, names
from trainyard.controller.api.problem import Problem
from trainyard.controller.info import Info


def check_initializers(info: Info) -> Iterator[Problem]:
    """Refuse `spec.initializer.dataset` and `.model` where the runtime has no place for them."""
    initializer = info.train_job.spec.initializer
    if initializer is None:
        return
    for field, ancestor, source in (
        ("dataset", names.DATASET_INITIALIZER, initializer.dataset),
        ("model", names.MODEL_INITIALIZER, initializer.model),
    ):
        if source is not None and (missing := _missing(info, ancestor)):
            yield info.problem(
                f"spec.initializer.{field}", f"the runtime {info.runtime.name!r} of spec.runtimeRef must have {missing}"
            )


def _missing(info: Info, ancestor: str) -> str:
    """Say what the runtime lacks; nothing when it has all."""
    pod_set = info.pod_set(ancestor)
    if pod_set is None:
        return f"a replicated job {ancestor!r}"
    if pod_set.ancestor != ancestor:
        return f"the label {labels.ANCESTOR_STEP}: {ancestor} on its replicated job {ancestor!r}"
    container = pod_set.container(ancestor)
    if container is None:
        return f"a container {ancestor!r} in its replicated job {ancestor!r}"
    if not any(mount.get("name") == names.INITIALIZER_VOLUME for mount in container.volume_mounts):
        return f"a volume {names.INITIALIZER_VOLUME!r} mounted in the container {ancestor!r}"
    return ""
