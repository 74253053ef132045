"""What a container sees where: its volumeMounts, a /workspace of its own, the job's hosts file."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from trainyard.contract import paths
from trainyard.contract.errors import ConfigError
from trainyard.local.containers.launch import Mount
from trainyard.local.pods.expansion import expand, references
from trainyard.local.pods.job_context import JobContext
from trainyard.local.pods.pod_instance import PodInstance
from trainyard.local.pods.volumes import is_read_only, volume_kind, volume_source

_SHARED_MEMORY: Final = "/dev/shm"


def container_mounts(
    container: Mapping[str, Any], pod: PodInstance, context: JobContext, variables: Mapping[str, str]
) -> tuple[Mount, ...]:
    """Compute a container's mounts, parents before children; touches nothing. Raises ConfigError.

    An emptyDir at /dev/shm is left out: every process here already has the machine's own.
    """
    volumes = {volume.get("name"): volume for volume in pod.spec.get("volumes") or ()}
    mounts: dict[str, Mount] = {}
    for entry in container.get("volumeMounts") or ():
        target = _target(entry.get("mountPath"))
        if target in mounts:
            raise ConfigError(f"volumeMounts: {target!r} is mounted twice")
        volume = volumes.get(entry.get("name"))
        if volume is None:
            known = ", ".join(sorted(str(name) for name in volumes)) or "none"
            raise ConfigError(f"volumeMounts: no volume {entry.get('name')!r}; the pod has {known}")
        if target == _SHARED_MEMORY and volume_kind(volume) == "emptyDir":
            continue
        source = volume_source(volume, pod, context)
        below = _sub_path(entry, variables)
        read_only = bool(entry.get("readOnly")) or is_read_only(volume)
        mounts[target] = Mount(source=source / below if below else source, target=target, read_only=read_only)
    if paths.WORKSPACE not in mounts and not _hidden_by(paths.WORKSPACE, context):
        own = context.pod_folder(pod) / "workspace"
        mounts[paths.WORKSPACE] = Mount(source=own, target=paths.WORKSPACE)
    return tuple(mounts[target] for target in sorted(mounts, key=lambda target: PurePosixPath(target).parts))


def system_mounts(container: Mapping[str, Any], termination_file: Path, context: JobContext) -> tuple[Mount, ...]:
    """Give the mounts that every container has in a mount namespace beside its volumes."""
    mounts = [Mount(source=context.folder / "hosts", target="/etc/hosts", read_only=True)]
    message_path = str(container.get("terminationMessagePath") or paths.TERMINATION_LOG)
    if message_path != paths.TERMINATION_LOG:
        mounts.append(Mount(source=termination_file, target=message_path))
    return tuple(mounts)


def hiding_problems(mounts: tuple[Mount, ...], context: JobContext) -> Iterator[str]:
    """List mounts that would hide what the container needs of this machine."""
    for mount in mounts:
        for what in _hidden_by(mount.target, context):
            way = "choose another with --state-dir" if what == "state directory" else "install it elsewhere"
            yield f"volumeMounts: {mount.target!r} would hide this machine's {what}; {way}"


def make_sources(mounts: tuple[Mount, ...]) -> None:
    """Make the folders that mounts need and nobody else makes: subPaths of writable volumes, a pod's own /workspace."""
    for mount in mounts:
        if not mount.source.exists():
            mount.source.mkdir(parents=True)


def _hidden_by(target: str, context: JobContext) -> list[str]:
    if context.isolation.paths != "namespace":
        return []
    needed = {
        "state directory": context.folder,
        "Python environment": Path(sys.prefix),
        "Python": Path(sys.base_prefix),
    }
    return [what for what, place in needed.items() if place.resolve().is_relative_to(target)]


def _target(path: Any) -> str:
    pure = PurePosixPath(str(path or ""))
    if not pure.is_absolute() or ".." in pure.parts or ":" in str(pure) or pure == PurePosixPath("/"):
        raise ConfigError(f"volumeMounts: mountPath: expected an absolute path, got {path!r}")
    return str(pure)


def _sub_path(entry: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    below = str(entry.get("subPath") or "")
    expression = str(entry.get("subPathExpr") or "")
    if expression:
        unknown = [name for name in references(expression) if name not in variables]
        if unknown:
            raise ConfigError(f"volumeMounts: subPathExpr {expression!r}: the container has no variable {unknown[0]!r}")
        below = expand(expression, variables)
    pure = PurePosixPath(below)
    if pure.is_absolute() or ".." in pure.parts:
        raise ConfigError(f"volumeMounts: subPath {below!r}: expected a path inside the volume")
    return below
