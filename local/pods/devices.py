"""Which GPUs a container sees: requests become partitions of the machine's GPUs, or one CPU process per node.

`--devices auto` takes GPUs when there are enough for all requests of the job and says so in one line when it goes on
without; `cpu` never takes any; `cuda` refuses a job that asks for more than there are. A container that asks for none
sees none, as on a cluster.
"""

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from trainyard.contract import env
from trainyard.contract.errors import ConfigError
from trainyard.controller.api.quantity import parse_quantity
from trainyard.controller.resources import AUTO, is_accelerator
from trainyard.local.pods.pod_instance import PodInstance

DeviceMode = Literal["auto", "cpu", "cuda"]
_MODES: Final[Mapping[str, DeviceMode]] = {"auto": "auto", "cpu": "cpu", "cuda": "cuda"}

CUDA_VISIBLE_DEVICES: Final = "CUDA_VISIBLE_DEVICES"
_CUDA_RESOURCE: Final = re.compile(r"nvidia\.com/(gpu(\.shared)?|mig-.+)")
_SMI_TIMEOUT_SECONDS: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicePlan:
    """Which devices the job uses."""

    kind: Literal["cpu", "cuda"]
    shares: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """(host name of a pod, name of a container) to the GPUs that it sees; absent means none."""
    nodes: Mapping[str, int] = field(default_factory=dict)
    """Replicated job to the number of its pods, which run at the same time and share the CPUs."""
    message: str | None = None
    """One line for people when a request could not be met; None when there is nothing to say."""

    def environment(
        self, pod: PodInstance, container: Mapping[str, Any], variables: Mapping[str, str]
    ) -> dict[str, str]:
        """Give the variables that choose a container's devices and, with them, its process count."""
        share = self.shares.get((pod.hostname, str(container.get("name"))), ())
        chosen = {CUDA_VISIBLE_DEVICES: ",".join(share)}
        processes = variables.get(env.PET_NPROC_PER_NODE)
        if processes is not None and not share and (processes == AUTO or _requests(container)):
            chosen[env.PET_NPROC_PER_NODE] = "1"
        elif processes == AUTO:
            chosen[env.PET_NPROC_PER_NODE] = str(len(share))
        nodes = self.nodes.get(pod.replicated_job, 1)
        if nodes > 1 and not share:
            # Each process would start a thread per CPU of the whole machine, and they would wait for each other.
            workers = chosen.get(env.PET_NPROC_PER_NODE, processes or "1")
            chosen["OMP_NUM_THREADS"] = str(max(1, _cpus() // (nodes * (int(workers) if workers.isdigit() else 1))))
        return chosen


def parse_mode(text: str) -> DeviceMode:
    """Read the option `--devices`; raise ConfigError for another word."""
    if text not in _MODES:
        raise ConfigError(f"--devices: expected auto, cpu or cuda, got {text!r}")
    return _MODES[text]


def plan_devices(pods: Sequence[PodInstance], mode: DeviceMode, detect: Callable[[], Sequence[str]]) -> DevicePlan:
    """Deal the machine's GPUs out to the containers that ask for them; raise ConfigError when `cuda` cannot be met.

    `detect` lists the GPUs; it is called only when the answer matters.
    """
    asked: list[tuple[tuple[str, str], int]] = []
    others: dict[str, int] = {}
    for pod in pods:
        for container in (*pod.init_containers(), *pod.containers()):
            wanted = _requests(container)
            cuda = sum(count for name, count in wanted.items() if _CUDA_RESOURCE.fullmatch(name))
            if cuda:
                asked.append(((pod.hostname, str(container.get("name"))), cuda))
            for name, count in wanted.items():
                if not _CUDA_RESOURCE.fullmatch(name):
                    others[name] = others.get(name, 0) + count
    total = sum(count for _, count in asked)
    nodes = Counter(pod.replicated_job for pod in pods)
    gpus = detect() if mode == "cuda" or (mode == "auto" and total) else ()
    if mode == "cuda":
        _refuse_too_few(total, len(gpus))
    if mode != "cpu" and total and total <= len(gpus):
        return DevicePlan(kind="cuda", shares=_deal(asked, gpus), nodes=nodes)
    wishes = [f"{total} x nvidia.com/gpu"] if total else []
    wishes += [f"{count} x {name}" for name, count in sorted(others.items())]
    if not wishes:
        return DevicePlan(kind="cpu", nodes=nodes)
    why = "--devices cpu" if mode == "cpu" else f"this machine has {_count(len(gpus)) if total else 'none'}"
    message = f"the job asks for {', '.join(wishes)}; {why}: one CPU process per node"
    return DevicePlan(kind="cpu", nodes=nodes, message=message)


def detect_gpus(environ: Mapping[str, str]) -> tuple[str, ...]:
    """List the GPUs of this machine as CUDA_VISIBLE_DEVICES names them; the caller's own restriction holds.

    Asks nvidia-smi, else counts device files; imports nothing and costs nothing where there is no driver.
    """
    restricted = environ.get(CUDA_VISIBLE_DEVICES)
    devices = sorted(int(file.name.removeprefix("nvidia")) for file in Path("/dev").glob("nvidia[0-9]*"))
    smi = shutil.which("nvidia-smi", path=environ.get("PATH", os.defpath))
    if not devices and smi is None:
        return ()
    if restricted is not None:
        return tuple(word.strip() for word in restricted.split(",") if word.strip() not in ("", "-1", "NoDevFiles"))
    if smi is not None:
        try:
            listed = subprocess.run(
                [smi, "-L"],
                capture_output=True,
                text=True,
                timeout=_SMI_TIMEOUT_SECONDS,
                check=False,
                env=dict(environ),
            )
        except (OSError, subprocess.TimeoutExpired):
            return ()
        if listed.returncode == 0:
            return tuple(re.findall(r"^GPU (\d+):", listed.stdout, re.MULTILINE))
        return ()
    return tuple(str(number) for number in devices)


def _requests(container: Mapping[str, Any]) -> dict[str, int]:
    """Give the accelerators that a container asks for, by name; DRA claims under the name `claims`."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    found = {str(name): parse_quantity(amount).as_int_ceil() for name, amount in asked.items() if is_accelerator(name)}
    found["claims"] = len(resources.get("claims") or ())
    return {name: count for name, count in found.items() if count > 0}


def _refuse_too_few(asked: int, there: int) -> None:
    if not asked:
        raise ConfigError(
            "--devices cuda: no container of the job asks for a GPU; set spec.trainer.resourcesPerNode.limits to "
            "{nvidia.com/gpu: 1}, or run with --devices auto"
        )
    if asked > there:
        raise ConfigError(
            f"--devices cuda: the job asks for {_count(asked)}, this machine has {_count(there)}; lower "
            "spec.trainer.resourcesPerNode or spec.trainer.numNodes, or run with --devices auto"
        )


def _deal(asked: Sequence[tuple[tuple[str, str], int]], gpus: Sequence[str]) -> dict[tuple[str, str], tuple[str, ...]]:
    shares: dict[tuple[str, str], tuple[str, ...]] = {}
    position = 0
    for key, count in asked:
        shares[key] = tuple(gpus[position : position + count])
        position += count
    return shares


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _count(number: int) -> str:
    return "no GPU" if number == 0 else "1 GPU" if number == 1 else f"{number} GPUs"
