"""What all pods of one job share on this machine: folders, secrets, names and ports, devices, images.

    context = open_job_context(job_set, pods, folder=..., state_dir=..., isolation=..., environ=os.environ, ...)
    check_pods(pods, context)                     # every problem, before anything is written
    prepared = prepare_pod(pod, context)          # for each pod, when its turn comes
    context.close()                               # at the end: gives the ports back, removes Secrets

Opening writes nothing. The ports belong to the process that opened the context: open it where the job is run.

The folder of a job, as far as pods are concerned:

    <folder>/hosts                                names of the job's pods, mounted as /etc/hosts
    <folder>/shims/{tune,torchrun,python,...}     first on PATH
    <folder>/volumes/<claim>/                     claims of the job's volumeClaimPolicies: /workspace, mostly
    <folder>/pods/<pod>/volumes/<volume>/         emptyDir, configMap, secret, projected, ephemeral
    <folder>/pods/<pod>/workspace/                /workspace of a pod that mounts none
    <folder>/pods/<pod>/work/                     working directory of a container that names none
    <folder>/pods/<pod>/token                     the pod's progress token (0600)
    <folder>/pods/<pod>/substitutions.json        what was replaced in its commands and environment, for `describe`
    <folder>/pods/<pod>/termination/<container>   the termination message
    <folder>/logs/<pod>/<container>.log
    <state-dir>/.claims/<namespace>/<claim>/      claims that no template of the job makes; shared between jobs
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

from trainyard.local.containers.isolation import Isolation
from trainyard.local.pods.devices import DevicePlan, detect_gpus, parse_mode, plan_devices
from trainyard.local.pods.images import ImageTable, parse_image_options
from trainyard.local.pods.network import Network, plan_network
from trainyard.local.pods.network_text import NetworkText
from trainyard.local.pods.pod_instance import PodInstance
from trainyard.local.pods.secret_data import values_by_name


class ProgressEndpoint(Protocol):
    """Where pods report to (`progress_server.ProgressServer`)."""

    @property
    def url(self) -> str:
        """Give the address of the job's status."""

    def token(self, pod: PodInstance) -> str:
        """Give the pod's own token; reports with it count as that pod's."""


@dataclass(frozen=True, kw_only=True)
class JobContext:
    """Everything that preparing a pod needs beside the pod."""

    namespace: str
    job: str
    """Name of the TrainJob and of its JobSet."""
    folder: Path
    """The job's folder in the state directory."""
    claims_folder: Path
    """Claims that no template of the job makes."""
    isolation: Isolation
    network: Network
    devices: DevicePlan
    images: ImageTable
    environ: Mapping[str, str]
    """The caller's environment; only the names on the allow list are taken from it (`pod_environment`)."""
    claim_templates: frozenset[str] = frozenset()
    """Names of the JobSet's volumeClaimPolicies templates."""
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """Name of a Secret to its keys."""
    config_maps: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """Name of a ConfigMap to its keys."""
    progress: ProgressEndpoint | None = None
    """The job's status server; None when nothing listens."""
    allow_host_paths: bool = False
    """Whether hostPath volumes are allowed."""
    secret_files: list[Path] = field(default_factory=list)
    """Files and folders with Secrets that were written for pods; `close` removes them."""

    def pod_folder(self, pod: PodInstance) -> Path:
        """Give the folder of a pod's files."""
        return self.folder / "pods" / pod.name

    @property
    def shims(self) -> Path:
        """Give the folder that comes first on PATH."""
        return self.folder / "shims"

    @cached_property
    def network_text(self) -> NetworkText:
        """Give what replaces names and ports in text."""
        return NetworkText(self.network)

    def close(self) -> None:
        """Give the reserved ports back, and remove what was written of Secrets."""
        self.network.close()
        while self.secret_files:
            path = self.secret_files.pop()
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def open_job_context(
    job_set: Mapping[str, Any],
    pods: Sequence[PodInstance],
    *,
    folder: Path,
    state_dir: Path,
    isolation: Isolation,
    environ: Mapping[str, str],
    secrets: Iterable[Mapping[str, Any]] = (),
    config_maps: Iterable[Mapping[str, Any]] = (),
    devices: str = "auto",
    images: Iterable[str] = (),
    allow_host_paths: bool = False,
    progress: ProgressEndpoint | None = None,
) -> JobContext:
    """Decide names, ports and devices for all pods that a JobSet can have.

    `secrets` and `config_maps` are manifests, `images` the options IMAGE=COMMAND. Raises ConfigError for malformed
    input or devices that are not there, TransientError when no port is free.
    """
    metadata = job_set.get("metadata") or {}
    namespace = str(metadata.get("namespace") or "default")
    policies = (job_set.get("spec") or {}).get("volumeClaimPolicies") or ()
    templates = [template for policy in policies for template in policy.get("templates") or ()]
    mode = parse_mode(devices)
    device_plan = plan_devices(pods, mode, partial(detect_gpus, environ))
    folder = folder.absolute()
    return JobContext(
        namespace=namespace,
        job=str(metadata.get("name") or ""),
        folder=folder,
        claims_folder=state_dir.absolute() / ".claims" / namespace,
        isolation=isolation,
        devices=device_plan,
        images=parse_image_options(images),
        environ=dict(environ),
        claim_templates=frozenset(str((template.get("metadata") or {}).get("name")) for template in templates),
        secrets=values_by_name(secrets),
        config_maps=values_by_name(config_maps),
        progress=progress,
        allow_host_paths=allow_host_paths,
        network=plan_network(pods, seed=str(folder), names_in_text=isolation.paths == "mapped"),
    )
