"""One pod that is to run, as the engine sees it after JobSet and Job have done their part."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class PodInstance:
    """A pod of a job, and which try of it this is."""

    namespace: str
    name: str
    """Name of the pod; names its folder and its logs. A later attempt has the same name."""
    job: str
    """Name of the Job that owns it: `<jobset>-<replicated job>-<job index>`."""
    hostname: str
    """`<jobset>-<replicated job>-<job index>-<completion index>`; peers find it under `<hostname>.<subdomain>`."""
    subdomain: str
    replicated_job: str
    job_index: int = 0
    """Which replica of the replicated job."""
    completion_index: int | None = 0
    """Which pod of the Job; None for a Job whose completionMode is NonIndexed."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any]
    """The pod's spec, a plain manifest."""
    attempt: int = 0
    """0 for the first pod of this name; a replacement after a failure counts up."""
    ancestor: str | None = None
    """Step of the TrainJob that its replicated job is labelled with: `dataset-initializer`, `trainer`, ...; or None."""
    uid: str = ""
    """`metadata.uid`, an argument so that nothing here is random."""

    @property
    def domain_name(self) -> str:
        """Give the name under which peers find this pod."""
        return f"{self.hostname}.{self.subdomain}" if self.subdomain else self.hostname

    def containers(self) -> tuple[Mapping[str, Any], ...]:
        """List the main containers."""
        return tuple(self.spec.get("containers") or ())

    def init_containers(self) -> tuple[Mapping[str, Any], ...]:
        """List the init containers, sidecars included, in their order."""
        return tuple(self.spec.get("initContainers") or ())
