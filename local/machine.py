"""This machine as the engine uses it: what all pods of a job share, opened for a run and closed after it.

machine = open_machine(job_set, folder=..., request=..., ...)
machine.check()                       # every problem of every pod, before anything starts
engine = Engine(..., machine=machine)
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from trainyard.contract import names
from trainyard.contract.errors import ConfigError
from trainyard.local.containers import launch
from trainyard.local.containers.isolation import detect_isolation
from trainyard.local.containers.launch import ContainerLaunch, ContainerProcess
from trainyard.local.engine.job_set_spec import JobSetSpec
from trainyard.local.engine.pod_template import all_pods
from trainyard.local.pods.job_context import JobContext, open_job_context
from trainyard.local.pods.pod import PreparedPod, check_pods, prepare_pod
from trainyard.local.pods.pod_instance import PodInstance
from trainyard.local.pods.progress_server import ProgressReport, ProgressServer

_INITIALIZERS = (names.DATASET_INITIALIZER, names.MODEL_INITIALIZER)

MOST_PODS: Final = 4096
"""Far more than a machine bears; a slip of the finger must not fill its memory before anything is checked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRequest:
    """How a job is to be run; a background supervisor reads it from request.json."""

    devices: str = "auto"
    """`auto`, `cpu` or `cuda`."""
    images: tuple[str, ...] = ()
    """Further entries of the image table, as `--image` takes them."""
    isolation: str | None = None
    """`namespace` or `mapped`; None: whatever this machine permits."""
    allow_host_paths: bool = False
    """Whether hostPath volumes are allowed."""

    def to_dict(self) -> dict[str, Any]:
        """Serialise."""
        return {**asdict(self), "images": list(self.images)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Read back what `to_dict` gave."""
        return cls(**{**raw, "images": tuple(raw["images"])})


Listener = Callable[[str, Mapping[str, Any]], None]
"""Takes a step (an initializer's name, else `trainer`) and its trainerStatus; called in the server's thread."""


class ProgressRelay:
    """Hands reports on, from the moment on at which somebody listens."""

    def __init__(self) -> None:
        self.listener: Listener | None = None

    def __call__(self, report: ProgressReport) -> None:
        """Hand a report on."""
        if self.listener is not None:
            step = report.pod.ancestor
            self.listener(step if step in _INITIALIZERS else names.TRAINER, report.status)


class LocalMachine:
    """Processes on this machine."""

    def __init__(
        self, context: JobContext, pods: Sequence[PodInstance], progress: ProgressServer, relay: ProgressRelay
    ) -> None:
        self.context = context
        self._pods = pods
        self._progress = progress
        self._relay = relay

    @property
    def messages(self) -> list[str]:
        """Say in whole lines what the job gets otherwise than it asked for."""
        return [self.context.devices.message] if self.context.devices.message else []

    def check(self) -> None:
        """Raise one ConfigError with everything that would keep a pod from starting."""
        check_pods(self._pods, self.context)

    def serve_progress(self, listener: Listener) -> None:
        """Begin to receive progress messages."""
        self._relay.listener = listener
        self._progress.start()

    def prepare(self, pod: PodInstance) -> PreparedPod:
        """Write a pod's files and say what to launch."""
        return prepare_pod(pod, self.context)

    def start(self, one: ContainerLaunch) -> ContainerProcess:
        """Start a container."""
        return launch.start(one, self.context.isolation)

    def close(self) -> None:
        """Take no more progress and give the ports back."""
        self._progress.close()
        self.context.close()


def open_machine(
    manifest: Mapping[str, Any],
    job_set: JobSetSpec,
    *,
    folder: Path,
    request: RunRequest,
    secrets: Iterable[Mapping[str, Any]],
    config_maps: Iterable[Mapping[str, Any]],
    environ: Mapping[str, str] | None = None,
) -> LocalMachine:
    """Find out what this machine has and reserve what the job needs; raises TrainyardError.

    `manifest` is the JobSet that `job_set` was read from; Secrets and ConfigMaps are manifests.
    """
    environ = os.environ if environ is None else environ
    count = sum(job.replicas * job.job.slots for job in job_set.replicated_jobs)
    if count > MOST_PODS:
        raise ConfigError(
            f"job {job_set.name!r}: {count} pods, and one machine runs at most {MOST_PODS}; lower spec.trainer.numNodes"
        )
    pods = list(all_pods(job_set))
    relay = ProgressRelay()
    progress = ProgressServer(job_set.namespace, job_set.name, relay)
    try:
        context = open_job_context(
            manifest,
            pods,
            folder=folder,
            state_dir=folder.parent.parent,
            isolation=detect_isolation(request.isolation, environ),
            environ=environ,
            secrets=secrets,
            config_maps=config_maps,
            devices=request.devices,
            images=request.images,
            allow_host_paths=request.allow_host_paths,
            progress=progress,
        )
    except BaseException:
        progress.close()
        raise
    return LocalMachine(context, pods, progress, relay)
