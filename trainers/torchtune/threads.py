"""How many CPU threads a process should compute with.

torch starts one for each core that it sees, also in a container that may use two of the node's hundred: the threads
then wait for each other. torchrun gives one thread to each of several processes, also where there are cores for more.
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

OMP_NUM_THREADS: Final = "OMP_NUM_THREADS"
_CPU_MAX: Final = Path("/sys/fs/cgroup/cpu.max")


def threads_of_each(processes: int) -> int:
    """Share the cores that this process may use, container limit included, among the processes of this machine."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = float(len(affinity(0)) if affinity is not None else os.cpu_count() or 1)
    try:
        quota, period = _CPU_MAX.read_text(encoding="ascii").split()
        cores = min(cores, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):  # No cgroup version 2, or no limit in it ("max").
        pass
    return max(1, int(cores) // processes)


def environment_of_each(processes: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Give the variable that limits each of several processes; nothing where the user has set it."""
    return {} if environ.get(OMP_NUM_THREADS) else {OMP_NUM_THREADS: str(threads_of_each(processes))}
