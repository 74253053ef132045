"""What can be known to be wrong with a pod before anything starts: commands, files, folders, volumes."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trainyard.contract import env
from trainyard.local.pods.container import ContainerPlan
from trainyard.local.pods.job_context import JobContext
from trainyard.local.pods.mounts import hiding_problems
from trainyard.local.pods.path_mapping import source_of
from trainyard.local.pods.pod_instance import PodInstance
from trainyard.local.pods.shims import shim_scripts
from trainyard.local.pods.volumes import volume_problems

_UNSAFE_IN_TEXT: Final = re.compile(r"[\s'\"\\$`;&|<>()*?\[\]{}!#]")


def pod_problems(pod: PodInstance, context: JobContext) -> Iterator[str]:
    """List what is wrong with a pod apart from its containers."""
    if not pod.containers():
        yield f"pod {pod.name}: no containers"
    yield from volume_problems(pod, context)
    unsafe = _UNSAFE_IN_TEXT.search(str(context.folder))
    if context.isolation.paths == "mapped" and unsafe is not None:
        # A script says `cd /workspace`; with a blank in the folder's name that would be two words.
        yield (
            f"state directory: {str(context.folder)!r} has the character {unsafe[0]!r}, and on this machine paths are "
            "replaced in scripts; choose another with --state-dir"
        )


def container_problems(
    container: Mapping[str, Any], plan: ContainerPlan, pod: PodInstance, context: JobContext
) -> Iterator[str]:
    """List what is wrong with what a container is to run, and where."""
    place = f"pod {pod.name}, container {plan.name!r}"
    for problem in hiding_problems(plan.mounts, context):
        yield f"{place}: {problem}"
    if not plan.argv:
        if context.images.find(str(container.get("image") or "")) is not None:
            yield (
                f"{place}: nothing to run: the container has no command, and image {container.get('image')!r} brings "
                "none; set spec.trainer.command"
            )
    else:
        missing = _command_problem(plan)
        if missing is not None:
            yield f"{place}: {missing}"
    wanted = str(container.get("workingDir") or "")
    if wanted and source_of(wanted, plan.substitutions.paths) is None and not Path(wanted).is_dir():
        yield f"{place}: workingDir {wanted!r} does not exist on this machine, and no volume is mounted there"
    yield from _hidden_source(plan, place)


def _command_problem(plan: ContainerPlan) -> str | None:
    command = plan.argv[0]
    if "/" in command:
        if _is_below_a_mount(command, plan):
            return None  # A volume may get it from a container that runs before.
        file = Path(command) if command.startswith("/") else plan.working_dir / command
        if not command.startswith("/") and not file.exists():
            return None  # Relative to a folder that the container may fill itself.
        if not file.exists():
            return f"command {command!r} does not exist"
        if not file.is_file() or not os.access(file, os.X_OK):
            return f"command {command!r} is not an executable file"
        return None
    path = plan.environment["PATH"]
    if command in shim_scripts() or shutil.which(command, path=path) is not None:
        return None
    if any(_is_below_a_mount(folder, plan) for folder in path.split(":")):
        return None
    return f"command {command!r} does not exist: it is in no folder of PATH; install it on this machine"


def _is_below_a_mount(path: str, plan: ContainerPlan) -> bool:
    if source_of(path, plan.substitutions.paths) is not None:
        return True
    return any(path.startswith(f"{entry.source}/") for entry in plan.substitutions.paths)


def _hidden_source(plan: ContainerPlan, place: str) -> Iterator[str]:
    """Find a `file://` source that exists on this machine and lies where the container sees a volume instead."""
    uri = plan.variables.get(env.STORAGE_URI, "")
    path = uri.removeprefix("file://")
    if uri.startswith("file:///") and Path(path).exists():
        behind = source_of(path, plan.substitutions.paths)
        if behind is not None and not Path(behind).exists():
            yield (
                f"{place}: {env.STORAGE_URI} {uri!r}: the container has a volume of its own there, so it cannot see "
                "this machine's folder; move or copy it to another path"
            )
