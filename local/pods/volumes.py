"""Volumes of a pod as folders of this machine.

    emptyDir, ephemeral                       pods/<pod>/volumes/<volume>/, new with each pod (also with medium Memory)
    configMap, secret, downwardAPI, projected the same place, written with their modes
    persistentVolumeClaim                     a claim of the job's own templates: volumes/<claim>/ of the job;
                                              any other: a folder that all jobs of the namespace share, kept for ever
    hostPath                                  the path itself, where `--allow-host-path` permits it

Two pods that name one claim see one folder. Every other kind of volume needs a cluster and is refused by name.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trainyard.contract.errors import ConfigError
from trainyard.local.pods.job_context import JobContext
from trainyard.local.pods.pod_instance import PodInstance
from trainyard.local.pods.volume_files import volume_files

_KEYED: Final = ("configMap", "secret", "downwardAPI", "projected")
_EMPTY: Final = ("emptyDir", "ephemeral")
_CLAIM: Final = "persistentVolumeClaim"
_HOST: Final = "hostPath"
_MUST_EXIST: Final = {"Directory": "is_dir", "File": "is_file"}

Rewrite = Callable[[str], str]


def volume_kind(volume: Mapping[str, Any]) -> str:
    """Name the kind of a volume; one without a source is an emptyDir, as in Kubernetes."""
    return next((str(key) for key, value in volume.items() if key != "name" and value is not None), "emptyDir")


def is_read_only(volume: Mapping[str, Any]) -> bool:
    """Say whether nobody may write to a volume, whatever its mounts say."""
    kind = volume_kind(volume)
    return kind in _KEYED or (kind == _CLAIM and bool(volume[_CLAIM].get("readOnly")))


def holds_secrets(volume: Mapping[str, Any]) -> bool:
    """Say whether a volume's files are secrets, or may be."""
    return volume_kind(volume) in ("secret", "projected")


def volume_source(volume: Mapping[str, Any], pod: PodInstance, context: JobContext) -> Path:
    """Give the folder (hostPath: also a file) behind a volume; touches nothing."""
    kind = volume_kind(volume)
    if kind == _CLAIM:
        return claim_folder(str(volume[_CLAIM].get("claimName") or ""), context)
    if kind == _HOST:
        return Path(str(volume[_HOST].get("path") or "/"))
    return context.pod_folder(pod) / "volumes" / str(volume.get("name"))


def claim_folder(claim: str, context: JobContext) -> Path:
    """Give the folder of a claim: below the job for its own templates, else below the namespace's shared claims."""
    own = claim.removesuffix(f"-{context.job}")
    if own != claim and own in context.claim_templates:
        return context.folder / "volumes" / own
    return context.claims_folder / claim


def volume_problems(pod: PodInstance, context: JobContext) -> Iterator[str]:
    """List what is wrong with a pod's volumes, one sentence each."""
    for volume in pod.spec.get("volumes") or ():
        place = f"pod {pod.name}, volume {volume.get('name')!r}"
        kind = volume_kind(volume)
        if kind in _KEYED:
            try:
                list(volume_files(kind, volume[kind] or {}, pod, context))
            except ConfigError as error:
                yield f"{place}: {error}"
        elif kind == _HOST:
            yield from _host_path_problems(volume[_HOST], place, context)
        elif kind == _CLAIM and not _is_name(volume[_CLAIM].get("claimName")):
            yield f"{place}: persistentVolumeClaim.claimName: expected a name, got {volume[_CLAIM].get('claimName')!r}"
        elif kind not in (*_EMPTY, _CLAIM):
            yield (
                f"{place}: volumes of kind {kind} need a cluster; on one machine use emptyDir, persistentVolumeClaim, "
                "configMap, secret, or hostPath with --allow-host-path"
            )


def write_volume(volume: Mapping[str, Any], pod: PodInstance, context: JobContext, rewrite: Rewrite) -> None:
    """Make a volume's folder and files; what a pod of the same name left in its own volumes goes."""
    kind = volume_kind(volume)
    folder = volume_source(volume, pod, context)
    if kind in (*_KEYED, *_EMPTY):
        shutil.rmtree(folder, ignore_errors=True)
    if kind in _KEYED:
        folder.mkdir(parents=True)
        for file in volume_files(kind, volume[kind] or {}, pod, context):
            _write(folder / file.path, _rewritten(file.data, rewrite) if file.is_code else file.data, file.mode)
    elif kind == _HOST:
        wanted = str(volume[_HOST].get("type") or "")
        if wanted == "DirectoryOrCreate":
            folder.mkdir(parents=True, exist_ok=True)
        elif wanted == "FileOrCreate":
            folder.touch(exist_ok=True)
    else:
        folder.mkdir(parents=True, exist_ok=True)


def _host_path_problems(source: Mapping[str, Any], place: str, context: JobContext) -> Iterator[str]:
    path, wanted = Path(str(source.get("path") or "")), str(source.get("type") or "")
    if not path.is_absolute():
        yield f"{place}: hostPath.path: expected an absolute path, got {str(path)!r}"
    elif not context.allow_host_paths:
        yield (
            f"{place}: hostPath {str(path)!r} would give the job this machine's own files; allow it with "
            "--allow-host-path, or use a persistentVolumeClaim"
        )
    elif wanted in _MUST_EXIST and not getattr(path, _MUST_EXIST[wanted])():
        yield f"{place}: hostPath {str(path)!r} is not a {wanted.lower()}"
    elif not wanted and not path.exists():
        yield f"{place}: hostPath {str(path)!r} does not exist"


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "/" not in value and not value.startswith(".")


def _rewritten(data: bytes, rewrite: Rewrite) -> bytes:
    try:
        return rewrite(data.decode("utf-8")).encode()
    except UnicodeDecodeError:
        return data


def _write(path: Path, data: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(data)
    path.chmod(mode)
