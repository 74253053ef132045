"""Makers of TrainJobs and runtimes, and the schema of JobSet's own CustomResourceDefinition."""

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.contract import labels, names
from trainyard.controller.api.load import load_runtime, load_train_job
from trainyard.controller.api.runtime import TrainingRuntime
from trainyard.controller.api.train_job import TrainJob
from trainyard.controller.lint import lint
from trainyard.controller.plan import plan

JOBSET = "v0.12.0"
CRD = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
NEEDS_SCHEMA = "job_set_schema"

Maker = Callable[..., Any]


def cached_schema() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "trainyard")
    return cache / f"jobset-{JOBSET}-crd.json"


@functools.cache
def schema_is_in_reach() -> bool:
    return cached_schema().exists() or shutil.which("go") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if schema_is_in_reach():
        return
    without = [item for item in items if NEEDS_SCHEMA in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=without)
    items[:] = [item for item in items if item not in without]


def pytest_report_collectionfinish() -> list[str]:
    if schema_is_in_reach():
        return []
    return [f"tests against JobSet's schema deselected: no go command to fetch sigs.k8s.io/jobset@{JOBSET}"]


@pytest.fixture(scope="session")
def job_set_schema() -> dict[str, Any]:
    """The JobSet CRD's schema, from its Go module; kept in the cache folder."""
    cached = cached_schema()
    if not cached.exists():
        done = subprocess.run(
            ["go", "mod", "download", "-json", f"sigs.k8s.io/jobset@{JOBSET}"],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
            env={**os.environ, "GOFLAGS": "-mod=mod"},
        )
        text = Path(json.loads(done.stdout)["Dir"], CRD).read_text(encoding="utf-8")
        crd = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        version = next(entry for entry in crd["spec"]["versions"] if entry["name"] == "v1alpha2")
        cached.parent.mkdir(parents=True, exist_ok=True)
        partial = cached.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(version["schema"]["openAPIV3Schema"]), encoding="utf-8")
        partial.replace(cached)
    schema: dict[str, Any] = json.loads(cached.read_text(encoding="utf-8"))
    return schema


@pytest.fixture(scope="session")
def train_job() -> Maker:
    """Make a TrainJob: `train_job("torch-distributed", trainer={...})`."""

    def make(runtime: str = "torch-distributed", /, *, name: str = "demo", **spec: Any) -> TrainJob:
        metadata = {"name": name, **spec.pop("metadata", {})}
        reference = {"name": runtime, **spec.pop("reference", {})}
        return load_train_job(
            {
                "apiVersion": names.API_VERSION,
                "kind": names.TRAIN_JOB,
                "metadata": metadata,
                "spec": {"runtimeRef": reference, **spec},
            }
        )

    return make


@pytest.fixture(scope="session")
def replicated_job() -> Maker:
    """Make a replicated job with one container: `replicated_job("node", names.TRAINER)`."""

    def make(
        name: str,
        ancestor: str | None = None,
        *,
        container: dict[str, Any] | None = None,
        pod: dict[str, Any] | None = None,
        job: dict[str, Any] | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        first = {"name": names.CONTAINER_OF_ANCESTOR.get(ancestor or "", name), "image": "i", **(container or {})}
        metadata = {"metadata": {"labels": {labels.ANCESTOR_STEP: ancestor}}} if ancestor else {}
        return {
            "name": name,
            **fields,
            "template": {
                **metadata,
                "spec": {**(job or {}), "template": {"spec": {"containers": [first], **(pod or {})}}},
            },
        }

    return make


@pytest.fixture(scope="session")
def runtime(replicated_job: Maker) -> Maker:
    """Make a runtime; with no jobs given it has one trainer."""

    def make(
        *jobs: dict[str, Any], name: str = "custom", policy: dict[str, Any] | None = None, **spec: Any
    ) -> TrainingRuntime:
        template = {
            "replicatedJobs": list(jobs or (replicated_job("node", names.TRAINER),)),
            **spec.pop("template", {}),
        }
        ml_policy = {} if policy is None else {"mlPolicy": policy}
        return load_runtime(
            {
                "apiVersion": names.API_VERSION,
                "kind": spec.pop("kind", names.CLUSTER_TRAINING_RUNTIME),
                "metadata": {"name": name, **spec.pop("metadata", {})},
                "spec": {**ml_policy, "template": {"spec": template, **spec.pop("around", {})}, **spec},
            }
        )

    return make


@pytest.fixture(scope="session")
def refusals() -> Maker:
    """Give the errors of a TrainJob with its runtime as text."""

    def find(job: TrainJob, runtime: TrainingRuntime | None, **options: Any) -> list[str]:
        return [str(problem) for problem in lint(job, runtime, **options).errors]

    return find


@pytest.fixture(scope="session")
def node() -> Maker:
    """Plan, and give the container of the trainer's job called `node`."""

    def find(job: TrainJob, runtime: TrainingRuntime, *, container: str = "node", **options: Any) -> dict[str, Any]:
        for replicated in plan(job, runtime, **options).job_set["spec"]["replicatedJobs"]:
            spec = replicated["template"]["spec"]["template"]["spec"]
            for found in (*spec["containers"], *spec.get("initContainers", ())):
                if found["name"] == container:
                    return dict(found)
        raise AssertionError(f"no container {container}")

    return find


@pytest.fixture(scope="session")
def env_of() -> Maker:
    """Give a container's environment as a dict; what is no plain value becomes its source."""

    def read(container: dict[str, Any]) -> dict[str, Any]:
        return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container.get("env", ())}

    return read


@pytest.fixture(scope="session")
def plan_of() -> Maker:
    """Plan, and give the replicated jobs."""

    def find(job: TrainJob, runtime: TrainingRuntime, **options: Any) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = plan(job, runtime, **options).job_set["spec"]["replicatedJobs"]
        return jobs

    return find
