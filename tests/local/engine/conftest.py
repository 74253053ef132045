"""A machine that runs each container's command as it stands, and short ways to write JobSets.

What pods get from `local.pod` (paths, names, environment) is its own tests' business; the tests of `run` have it.
"""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from trainyard.local.containers.isolation import Isolation
from trainyard.local.containers.launch import ContainerLaunch, ContainerProcess, start
from trainyard.local.containers.survivors import find_survivors
from trainyard.local.engine.engine import Engine
from trainyard.local.engine.job_set_spec import read_job_set
from trainyard.local.engine.observer import Snapshot
from trainyard.local.engine.timing import Timing
from trainyard.local.pods.pod_instance import PodInstance
from trainyard.local.store.job_folder import JobFolder

QUICK = Timing(
    first_backoff_seconds=0.02, longest_backoff_seconds=0.1, probe_period_seconds=0.03, status_interval_seconds=0.0
)


@dataclass(frozen=True, kw_only=True)
class PlainContainer:
    """A prepared container whose paths and names are taken as they stand."""

    name: str
    spec: Mapping[str, Any]
    launch: ContainerLaunch

    def exec_launch(self, command: Sequence[str], *, log_file: Path) -> ContainerLaunch:
        aside = log_file.with_suffix(".termination")
        return replace(self.launch, argv=tuple(command), log_file=log_file, termination_file=aside)


@dataclass(frozen=True, kw_only=True)
class PlainPod:
    """A prepared pod on 127.0.0.1."""

    folder: Path
    init: tuple[PlainContainer, ...]
    containers: tuple[PlainContainer, ...]

    def endpoint(self, host: str | None, port: int | str) -> tuple[str, int]:
        return host or "127.0.0.1", int(port)


class PlainMachine:
    """Runs commands in the job's folder, with PATH, the pod's plain variables and its name and index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[tuple[str, str]] = []

    def prepare(self, pod: PodInstance) -> PlainPod:
        own = self.folder / "pods" / pod.name
        own.mkdir(parents=True, exist_ok=True)
        (self.folder / "logs" / pod.name).mkdir(parents=True, exist_ok=True)
        return PlainPod(
            folder=own,
            init=tuple(self._prepared(pod, spec) for spec in pod.init_containers()),
            containers=tuple(self._prepared(pod, spec) for spec in pod.containers()),
        )

    def _prepared(self, pod: PodInstance, spec: Mapping[str, Any]) -> PlainContainer:
        own = self.folder / "pods" / pod.name
        environment = {item["name"]: item["value"] for item in spec.get("env") or [] if "value" in item}
        launch = ContainerLaunch(
            argv=tuple(spec["command"]),
            environment={
                "PATH": os.environ["PATH"],
                "POD": pod.name,
                "INDEX": str(pod.completion_index),
                "ATTEMPT": str(pod.attempt),
                "TERMINATION_LOG_PATH": str(own / f"{spec['name']}.termination"),
                **environment,
            },
            log_file=self.folder / "logs" / pod.name / f"{spec['name']}.log",
            termination_file=own / f"{spec['name']}.termination",
            working_dir=self.folder,
        )
        return PlainContainer(name=spec["name"], spec=spec, launch=launch)

    def start(self, launch: ContainerLaunch) -> ContainerProcess:
        self.started.append((launch.environment["POD"], launch.log_file.stem))
        return start(launch, Isolation(paths="mapped"))

    def close(self) -> None:
        pass


class Watcher:
    """Keeps what an observer hears, and acts when it hears it."""

    def __init__(self) -> None:
        self.events: list[Mapping[str, str]] = []
        self.snapshots: list[Snapshot] = []
        self.on_snapshot: Callable[[Snapshot], None] = lambda _: None

    def event(self, event: Mapping[str, str]) -> None:
        self.events.append(event)

    def snapshot(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)
        self.on_snapshot(snapshot)


class Job:
    """A JobSet under an engine, in a folder of its own."""

    def __init__(self, state_dir: Path, job_set: dict[str, Any], spec: dict[str, Any], timing: Timing) -> None:
        name = job_set["metadata"]["name"]
        self.path = state_dir / "default" / name
        self.folder = JobFolder.create(self.path)
        self.machine = PlainMachine(self.path)
        self.watcher = Watcher()
        train_job = {"kind": "TrainJob", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        self.engine = Engine(
            folder=self.folder,
            train_job=train_job,
            job_set=read_job_set(job_set),
            machine=self.machine,
            observer=self.watcher,
            timing=timing,
        )

    def run(self) -> dict[str, Any]:
        self.engine.run()
        self.folder.close()
        assert find_survivors(self.path) == []
        return self.status

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = dict(self.watcher.snapshots[-1].train_job["status"])
        return status

    @property
    def pods(self) -> dict[str, dict[str, Any]]:
        return {pod["name"]: dict(pod) for pod in self.watcher.snapshots[-1].pods}

    def container(self, pod: str, container: str = "c") -> dict[str, Any]:
        found: dict[str, Any] = next(one for one in self.pods[pod]["containers"] if one["name"] == container)
        return found

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.watcher.events]

    def lines(self, name: str = "order") -> list[str]:
        file = self.path / name
        return file.read_text().split() if file.exists() else []

    def log(self, pod: str, container: str = "c", *, previous: bool = False) -> str:
        return (self.path / "logs" / pod / f"{container}{'.previous' if previous else ''}.log").read_text()


@pytest.fixture
def make_job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Builds jobs that have not run yet."""
    made: list[Job] = []

    def make(*replicated: dict[str, Any], spec: dict[str, Any] | None = None, name: str = "j", **fields: Any) -> Job:
        manifest = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicatedJobs": list(replicated), **fields},
        }
        job = Job(tmp_path / "state", manifest, spec or {}, QUICK)
        made.append(job)
        return job

    yield make
    for job in made:
        job.folder.close()


def _shell(script: str, name: str = "c", **fields: Any) -> dict[str, Any]:
    return {"name": name, "command": ["sh", "-c", script], **fields}


def _python(code: str, name: str = "c", **fields: Any) -> dict[str, Any]:
    return {"name": name, "command": [sys.executable, "-I", "-S", "-c", code], **fields}


def _replicated(
    name: str,
    *containers: dict[str, Any] | str,
    init: Sequence[dict[str, Any]] = (),
    pod: Mapping[str, Any] | None = None,
    job: Mapping[str, Any] | None = None,
    ancestor: str | None = None,
    **fields: Any,
) -> dict[str, Any]:
    pod_spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [_shell(one) if isinstance(one, str) else one for one in containers],
        **(pod or {}),
    }
    if init:
        pod_spec["initContainers"] = list(init)
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": ancestor} if ancestor else {}
    template = {
        "metadata": {"labels": labels},
        "spec": {"backoffLimit": 0, **(job or {}), "template": {"spec": pod_spec}},
    }
    return {"name": name, "template": template, **fields}


class Write:
    """Short ways to write manifests."""

    shell = staticmethod(_shell)
    python = staticmethod(_python)
    replicated = staticmethod(_replicated)

    @staticmethod
    def wait_for(file: str, then: str = "") -> str:
        """A shell loop that ends when a file of the job's folder exists."""
        return f"while [ ! -e {shlex.quote(file)} ]; do sleep 0.01; done; {then}"


@pytest.fixture
def write() -> type[Write]:
    return Write
