"""One container of a pod as a launch: its environment, its command line, its mounts, all computed, nothing written.

The order matters. Variables are computed as Kubernetes does it; then devices and the status server are put in; names
and ports are replaced; only then `$(VAR)` in command and args is resolved, so that an argument built from a variable
gets the same port; paths come last, once, so that a folder of this machine is never mapped again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.contract import env, names, paths
from trainyard.contract.errors import ConfigError
from trainyard.local.containers.container_command import DEFAULT_PATH
from trainyard.local.containers.launch import Mount
from trainyard.local.pods.expansion import expand
from trainyard.local.pods.host_environment import inherited, search_path
from trainyard.local.pods.images import Program, command_line
from trainyard.local.pods.job_context import JobContext
from trainyard.local.pods.mounts import container_mounts, system_mounts
from trainyard.local.pods.network import LOCAL_DEFAULTS
from trainyard.local.pods.path_mapping import map_paths, source_of
from trainyard.local.pods.pod_environment import container_variables
from trainyard.local.pods.pod_instance import PodInstance
from trainyard.local.pods.substitution import PathSubstitution, Substitutions


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerPlan:
    """What a container will be."""

    name: str
    argv: tuple[str, ...]
    """Empty when nothing says what to run."""
    environment: Mapping[str, str]
    working_dir: Path
    mounts: tuple[Mount, ...]
    """Of its volumes and its /workspace."""
    system_mounts: tuple[Mount, ...]
    """Of every container."""
    termination_file: Path
    substitutions: Substitutions
    variables: Mapping[str, str]
    """The variables that the manifest defines, names and ports replaced, paths not: `$(VAR)` of further commands."""
    problems: tuple[str, ...]
    """Whatever keeps it from starting, one sentence each."""


def plan_container(container: Mapping[str, Any], pod: PodInstance, context: JobContext) -> ContainerPlan:
    """Compute a container, with every problem."""
    name = str(container.get("name"))
    place = f"pod {pod.name}, container {name!r}"
    found = container_variables(container, pod, context)
    problems = list(found.problems)
    image = str(container.get("image") or "")
    program = context.images.find(image)
    if program is None:
        problems.append(f"{place}: {unknown_image(image)}")
        program = Program()

    termination_file = context.pod_folder(pod) / "termination" / name
    mounts: tuple[Mount, ...] = ()
    try:
        mounts = container_mounts(container, pod, context, found.values)
    except ConfigError as problem:
        problems.append(f"{place}: {problem}")
    substitutions = _substitutions(container, mounts, termination_file, context)

    variables = {**program.environment, **found.values}
    variables |= {
        key: value
        for key, value in context.devices.environment(pod, container, variables).items()
        if key not in found.values or key == env.PET_NPROC_PER_NODE
    }
    variables |= _status_server(variables, pod, context)
    replaced = context.network_text.in_environment(variables, pod)
    verbatim = {key: variables[key] for key in found.from_secrets}
    replaced |= verbatim
    # Kubernetes knows only what the manifest defines; $(HOME) or $(OUTPUT_PATH) of an image stay as they are.
    defined = {key: replaced[key] for key in found.values}

    words = command_line(program, _words(container, "command"), _words(container, "args"))
    argv = context.network_text.in_words([expand(word, defined) for word in words], pod, variables)
    working_dir = str(container.get("workingDir") or "")
    mapped = {key: _map(value, substitutions) for key, value in replaced.items()} | verbatim
    return ContainerPlan(
        name=name,
        argv=tuple(_map(word, substitutions) for word in argv),
        environment=_with_machine(mapped, pod, context, termination_file),
        working_dir=_working_dir(working_dir, name, pod, context, substitutions),
        mounts=mounts,
        system_mounts=system_mounts(container, termination_file, context),
        termination_file=termination_file,
        substitutions=substitutions,
        variables=defined,
        problems=tuple(problems),
    )


def command_in_container(command: list[str], plan: ContainerPlan, pod: PodInstance, context: JobContext) -> list[str]:
    """Resolve and replace in a further command of a container, such as an exec probe's."""
    words = context.network_text.in_words([expand(word, plan.variables) for word in command], pod, plan.variables)
    return [_map(word, plan.substitutions) for word in words]


def unknown_image(image: str) -> str:
    """Say that no table knows an image, and what to do."""
    if not image:
        return "image is not set"
    return (
        f"image {image!r} is not one that runs without a container engine; say what stands for it: "
        f"--image {image}=python (this Python environment) or --image '{image}=COMMAND'"
    )


def rewrite_text(text: str, plan: ContainerPlan, pod: PodInstance, context: JobContext) -> str:
    """Replace names, ports and paths in a text that a container reads, such as a ConfigMap's script."""
    return _map(context.network_text.in_text(text, pod, plan.variables), plan.substitutions)


def _substitutions(
    container: Mapping[str, Any], mounts: tuple[Mount, ...], termination_file: Path, context: JobContext
) -> Substitutions:
    entries = [
        PathSubstitution(target=mount.target, source=str(mount.source), read_only=mount.read_only) for mount in mounts
    ]
    mapped = context.isolation.paths == "mapped"
    if mapped:
        message_path = str(container.get("terminationMessagePath") or paths.TERMINATION_LOG)
        entries.append(PathSubstitution(target=message_path, source=str(termination_file)))
    return Substitutions(
        addresses=context.network.address_of_name,
        names_in_text=context.network.names_in_text,
        ports=context.network.ports,
        paths=tuple(entries),
        paths_in_text=mapped,
    )


def _map(text: str, substitutions: Substitutions) -> str:
    return map_paths(text, substitutions.paths) if substitutions.paths_in_text else text


def _status_server(variables: Mapping[str, str], pod: PodInstance, context: JobContext) -> dict[str, str]:
    """Point every container at the job's own status server; its token's mount, where the plan has one, stays."""
    if context.progress is None:
        return {}
    token = variables.get(env.SERVER_TOKEN) or str(context.pod_folder(pod) / "token")
    return {env.SERVER_URL: context.progress.url, env.SERVER_TOKEN: token}


def _with_machine(
    variables: Mapping[str, str], pod: PodInstance, context: JobContext, termination_file: Path
) -> dict[str, str]:
    """Lay a container's variables over what this machine gives it."""
    path = variables.get("PATH") or context.environ.get("PATH") or DEFAULT_PATH
    environment = {
        **inherited(context.environ, context.network.peers()),
        **LOCAL_DEFAULTS,
        env.PET_MASTER_PORT: str(context.network.port(pod.hostname, names.MASTER_PORT)),
        "HOSTNAME": pod.hostname,
        env.TERMINATION_LOG_PATH: str(termination_file),
        **variables,
        "PATH": search_path(context.shims, path),
    }
    if context.progress is not None:
        # Plain HTTP on loopback: there is no certificate to check, and an empty CA file would only break clients.
        environment.pop(env.SERVER_CA_CERT, None)
    return environment


def _working_dir(wanted: str, name: str, pod: PodInstance, context: JobContext, substitutions: Substitutions) -> Path:
    if not wanted:
        return context.pod_folder(pod) / "work" / name
    if substitutions.paths_in_text:
        return Path(source_of(wanted, substitutions.paths) or wanted)
    return Path(wanted)


def _words(container: Mapping[str, Any], field: str) -> tuple[str, ...]:
    return tuple(str(word) for word in container.get(field) or ())
