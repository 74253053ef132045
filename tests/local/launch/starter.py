"""A supervisor of its own, for tests that need one that is somebody else's process, or another user's.

    starter.py run  < launches.json      starts them one after another, prints their ends
    starter.py hold < launches.json      starts them together, prints their pids, waits for ever
    starter.py leak < launches.json      as hold, and a child keeps copies of all its descriptors

Needs nothing but `trainyard.contract` and `trainyard.local` on PYTHONPATH.
"""

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from trainyard.local.containers.isolation import Isolation
from trainyard.local.containers.launch import ContainerLaunch, ContainerProcess, Mount, start


def to_launch(raw: dict[str, Any]) -> ContainerLaunch:
    folder = Path(raw["folder"])
    return ContainerLaunch(
        argv=tuple(raw["argv"]),
        environment={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        log_file=folder / f"{raw['name']}.log",
        termination_file=folder / f"{raw['name']}.message",
        hostname=raw.get("hostname"),
        mounts=tuple(Mount(source=Path(source), target=target, read_only=ro) for source, target, ro in raw["mounts"]),
    )


def run(launch: ContainerLaunch, isolation: Isolation) -> dict[str, Any]:
    process = start(launch, isolation)
    while (end := process.poll()) is None:
        select.select([process], [], [])
    process.close()
    return {"exit_code": end.exit_code, "reason": end.reason, "message": end.message}


def hold(launches: list[ContainerLaunch], isolation: Isolation, *, leak: bool) -> None:
    processes: list[ContainerProcess] = [start(launch, isolation) for launch in launches]
    while not all(process.is_started for process in processes):
        select.select([process for process in processes if not process.is_started], [], [])
        for process in processes:
            process.poll()
    child = 0
    if leak:
        child = os.fork()
        if child == 0:
            signal.pause()
    print(json.dumps({"pids": [[p.keeper_pid, p.pid] for p in processes], "child": child}), flush=True)
    signal.pause()


def main() -> None:
    request = json.load(sys.stdin)
    launches = [to_launch(raw) for raw in request["launches"]]
    isolation = Isolation(**request["isolation"])
    if sys.argv[1] == "run":
        print(json.dumps([run(launch, isolation) for launch in launches]))
    else:
        hold(launches, isolation, leak=sys.argv[1] == "leak")


if __name__ == "__main__":
    main()
