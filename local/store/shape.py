"""Whether what was read from a state file is what was once written there: a damaged file must not stop a reader."""

from typing import Any


def is_object(value: Any) -> bool:
    """Say whether it is a JSON object."""
    return isinstance(value, dict)


def is_train_job(value: Any) -> bool:
    """Say whether it is a TrainJob with a status, as far as readers look into it."""
    if not isinstance(value, dict) or not all(_is_optional(value.get(key), dict) for key in ("spec", "status")):
        return False
    status = value.get("status") or {}
    return all(_are_objects(status.get(key) or []) for key in ("conditions", "jobsStatus"))


def are_pods(value: Any) -> bool:
    """Say whether these are the entries of pods.json."""
    return _are_objects(value) and all(
        isinstance(pod.get("name"), str) and _are_objects(pod.get("containers") or []) for pod in value
    )


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _is_optional(value: Any, kind: type) -> bool:
    return value is None or isinstance(value, kind)
