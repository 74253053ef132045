"""From a pod to the processes that make it on this machine.

`check_pods` finds every problem before anything is written or started; `prepare_pod` writes the pod's files (volumes,
token, shims) and gives one `ContainerLaunch` per container. Neither starts anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.local.job_context import JobContext
from trainyard.local.launch import ContainerLaunch
from trainyard.local.pod_instance import PodInstance
from trainyard.local.substitution import Substitutions

__all__ = [
    "JobContext",
    "PodInstance",
    "PreparedContainer",
    "PreparedPod",
    "check_pod",
    "check_pods",
    "prepare_pod",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedContainer:
    """One container, ready to start; it may be started several times, as its pod's restartPolicy says."""

    name: str
    spec: Mapping[str, Any]
    """The container of the pod's manifest: probes, restartPolicy, lifecycle."""
    launch: ContainerLaunch
    is_sidecar: bool = False
    """Whether it is an init container with `restartPolicy: Always`."""
    substitutions: Substitutions
    """What was replaced in its command and environment."""

    def exec_launch(self, command: Sequence[str], *, log_file: Path) -> ContainerLaunch:
        """Give the launch of a command beside the container, in its environment and file system (exec probes)."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedPod:
    """A pod whose files are in place."""

    pod: PodInstance
    folder: Path
    """The pod's folder below the job's."""
    address: str
    """The loopback address that the pod's name stands for."""
    init: tuple[PreparedContainer, ...]
    """Init containers and sidecars, in the order in which they start."""
    containers: tuple[PreparedContainer, ...]

    @property
    def sidecars(self) -> tuple[PreparedContainer, ...]:
        """List the init containers that keep running."""
        return tuple(container for container in self.init if container.is_sidecar)

    def endpoint(self, host: str | None, port: int | str) -> tuple[str, int]:
        """Turn a probe's host and port (number, or name of a container's port) into a real address."""
        raise NotImplementedError


def check_pod(pod: PodInstance, context: JobContext) -> tuple[str, ...]:
    """List every problem that would keep the pod from starting; writes nothing."""
    raise NotImplementedError


def check_pods(pods: Sequence[PodInstance], context: JobContext) -> None:
    """Raise one ConfigError with the problems of all pods."""
    raise NotImplementedError


def prepare_pod(pod: PodInstance, context: JobContext) -> PreparedPod:
    """Write the pod's files, from scratch, and give its launches."""
    raise NotImplementedError
