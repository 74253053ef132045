"""From a pod to the processes that make it on this machine.

`check_pods` finds every problem before anything is written or started; `prepare_pod` writes the pod's files (volumes,
token, shims) and gives one `ContainerLaunch` per container. Neither starts anything.

What needs a container engine has no effect here: an image's own files, securityContext, CPU and memory limits,
affinity, tolerations, hostAliases.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from trainyard.contract.errors import ConfigError, from_os_error
from trainyard.local.containers.launch import ContainerLaunch
from trainyard.local.pods.container import ContainerPlan, command_in_container, plan_container, rewrite_text
from trainyard.local.pods.job_context import JobContext
from trainyard.local.pods.mounts import make_sources
from trainyard.local.pods.path_mapping import source_of
from trainyard.local.pods.pod_check import container_problems, pod_problems
from trainyard.local.pods.pod_files import private_folder, write_file
from trainyard.local.pods.pod_instance import PodInstance
from trainyard.local.pods.shims import write_shims
from trainyard.local.pods.substitution import SUBSTITUTIONS_FILE, Substitutions
from trainyard.local.pods.volumes import holds_secrets, volume_source, write_volume

__all__ = [
    "SUBSTITUTIONS_FILE",
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
    plan: ContainerPlan
    pod: PodInstance
    context: JobContext

    @property
    def substitutions(self) -> Substitutions:
        """Give what was replaced in its command and environment."""
        return self.plan.substitutions

    def exec_launch(self, command: Sequence[str], *, log_file: Path) -> ContainerLaunch:
        """Give the launch of a command beside the container, in its environment and file system (exec probes)."""
        argv = command_in_container(list(command), self.plan, self.pod, self.context)
        aside = self.plan.termination_file.with_name(f"{self.name}.exec")
        return replace(self.launch, argv=tuple(argv), log_file=log_file, termination_file=aside, record_file=None)


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
        everything = (*self.containers, *self.init)
        if isinstance(port, str) and not port.isdigit():
            ports = [entry for container in everything for entry in container.spec.get("ports") or ()]
            numbers = [entry.get("containerPort") for entry in ports if entry.get("name") == port]
            if not numbers:
                raise ConfigError(f"pod {self.pod.name}: a probe names the port {port!r}, which no container declares")
            port = int(numbers[0])
        network = everything[0].context.network
        known = network.host_of_name.get(host) if host else self.pod.hostname
        if known is None:
            return host or self.address, int(port)
        return network.addresses[known], network.port(known, int(port))


def check_pod(pod: PodInstance, context: JobContext) -> tuple[str, ...]:
    """List every problem that would keep the pod from starting; writes nothing."""
    problems = list(pod_problems(pod, context))
    for container in (*pod.init_containers(), *pod.containers()):
        plan = plan_container(container, pod, context)
        problems += [*plan.problems, *container_problems(container, plan, pod, context)]
    return tuple(dict.fromkeys(problems))


def check_pods(pods: Sequence[PodInstance], context: JobContext) -> None:
    """Raise one ConfigError with the problems of all pods; what several pods of a Job share is said once."""
    seen: dict[str, str] = {}
    for pod in pods:
        for problem in check_pod(pod, context):
            seen.setdefault(problem.replace(pod.name, f"{pod.replicated_job}-*"), problem)
    if seen:
        raise ConfigError("\n".join(seen.values()))


def prepare_pod(pod: PodInstance, context: JobContext) -> PreparedPod:
    """Write the pod's files, from scratch, and give its launches.

    Raises ConfigError as `check_pod` would, and what the file system says: NoSpaceError, CannotWriteError, ...
    """
    problems = check_pod(pod, context)
    if problems:
        raise ConfigError("\n".join(problems))
    try:
        return _write(pod, context)
    except OSError as error:
        raise from_os_error(error, f"prepare pod {pod.name}: write {error.filename!r}") from error


def _write(pod: PodInstance, context: JobContext) -> PreparedPod:
    folder = private_folder(context.pod_folder(pod))
    for left_by_an_earlier_attempt in ("work", "workspace"):
        shutil.rmtree(folder / left_by_an_earlier_attempt, ignore_errors=True)
    write_shims(context.shims)
    write_file(context.folder / "hosts", context.network.hosts_file())
    if context.progress is not None:
        context.secret_files.append(folder / "token")
        write_file(folder / "token", context.progress.token(pod), mode=0o600)
    specs = (*pod.init_containers(), *pod.containers())
    plans = {str(spec.get("name")): plan_container(spec, pod, context) for spec in specs}
    readers = {
        mount.get("name"): plans[str(spec.get("name"))] for spec in specs for mount in spec.get("volumeMounts") or ()
    }
    for volume in pod.spec.get("volumes") or ():
        reader = readers.get(volume.get("name"))
        rewrite = partial(rewrite_text, plan=reader, pod=pod, context=context) if reader is not None else str
        if holds_secrets(volume):
            context.secret_files.append(volume_source(volume, pod, context))
        write_volume(volume, pod, context, rewrite)
    init_names = {str(spec.get("name")) for spec in pod.init_containers()}
    prepared = [_prepare(spec, plans[str(spec.get("name"))], pod, context) for spec in specs]
    described = {
        "isolation": str(context.isolation),
        "containers": {container.name: container.substitutions.to_dict() for container in prepared},
    }
    write_file(folder / SUBSTITUTIONS_FILE, json.dumps(described, indent=2) + "\n")
    return PreparedPod(
        pod=pod,
        folder=folder,
        address=context.network.addresses[pod.hostname],
        init=tuple(container for container in prepared if container.name in init_names),
        containers=tuple(container for container in prepared if container.name not in init_names),
    )


def _prepare(spec: Mapping[str, Any], plan: ContainerPlan, pod: PodInstance, context: JobContext) -> PreparedContainer:
    log_file = context.folder / "logs" / pod.name / f"{plan.name}.log"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    make_sources(plan.mounts)
    plan.termination_file.parent.mkdir(parents=True, exist_ok=True)
    plan.termination_file.write_bytes(b"")
    inside = None if plan.substitutions.paths_in_text else source_of(str(plan.working_dir), plan.substitutions.paths)
    Path(inside or plan.working_dir).mkdir(parents=True, exist_ok=True)
    namespace = context.isolation.paths == "namespace"
    launch = ContainerLaunch(
        argv=plan.argv,
        environment=plan.environment,
        log_file=log_file,
        termination_file=plan.termination_file,
        working_dir=plan.working_dir,
        mounts=(*plan.mounts, *plan.system_mounts) if namespace else (),
        hostname=pod.hostname if namespace else None,
        logs_are_message=spec.get("terminationMessagePolicy") == "FallbackToLogsOnError",
    )
    is_sidecar = spec.get("restartPolicy") == "Always" and spec in pod.init_containers()
    return PreparedContainer(
        name=plan.name, spec=spec, launch=launch, is_sidecar=is_sidecar, plan=plan, pod=pod, context=context
    )
