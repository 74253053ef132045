"""A TrainJob is read with its defaults, and every mistake in it is said with its place."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from trainyard.controller.api.load import load_train_job
from trainyard.controller.api.problem import InvalidError
from trainyard.controller.api.train_job import TrainJob

HEAD = (
    "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: job}\nspec:\n  runtimeRef: {name: r}\n"
)

Load = Callable[[str], TrainJob]
Refusals = Callable[[str], list[str]]


def test_what_is_absent_has_its_default(load: Load) -> None:
    job = load(HEAD)
    assert (job.name, job.namespace) == ("job", "default")
    assert job.spec.runtime_ref.api_group == "trainer.kubeflow.org"
    assert job.spec.runtime_ref.kind == "ClusterTrainingRuntime"
    assert job.spec.trainer is None
    assert job.spec.initializer is None
    assert job.spec.runtime_patches == []
    assert not job.spec.suspend
    assert job.spec.active_deadline_seconds is None
    assert job.spec.managed_by == "trainer.kubeflow.org/trainjob-controller"


def test_every_field_is_read(load: Load) -> None:
    job = load(
        HEAD.replace("{name: job}", "{name: job, namespace: team, labels: {a: b}, annotations: {a.b/c: d}}")
        + """\
  initializer:
    dataset: {storageUri: "hf://a/b", env: [{name: A, value: x}], secretRef: {name: s}}
    model: {storageUri: ""}
  trainer:
    image: i
    command: []
    args: [a]
    env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]
    numNodes: 0
    resourcesPerNode: {limits: {cpu: 1, nvidia.com/gpu: 1.0, memory: 1Gi}}
    numProcPerNode: 2
  runtimePatches:
  - manager: example.com/x
    time: 2026-01-02T03:04:05Z
    trainingRuntimeSpec: {template: {metadata: {labels: {a: b}}, spec: {replicatedJobs: [{name: node}]}}}
  suspend: true
  activeDeadlineSeconds: 5
  managedBy: kueue.x-k8s.io/multikueue
status: {conditions: []}
"""
    )
    assert job.namespace == "team"
    assert job.metadata.labels == {"a": "b"}
    assert job.metadata.annotations == {"a.b/c": "d"}
    initializer, trainer, (patch,) = job.spec.initializer, job.spec.trainer, job.spec.runtime_patches
    assert initializer is not None
    assert initializer.dataset is not None
    assert initializer.model is not None
    assert (initializer.dataset.storage_uri, initializer.model.storage_uri) == ("hf://a/b", "")
    assert initializer.dataset.env == [{"name": "A", "value": "x"}]
    assert initializer.dataset.secret_ref is not None
    assert initializer.dataset.secret_ref.name == "s"
    assert trainer is not None
    assert (trainer.image, trainer.command, trainer.args, trainer.num_nodes) == ("i", [], ["a"], 0)
    assert trainer.resources_per_node == {"limits": {"cpu": 1, "nvidia.com/gpu": 1.0, "memory": "1Gi"}}
    assert trainer.num_proc_per_node == 2
    assert (patch.manager, patch.time, patch.metadata) == (
        "example.com/x",
        "2026-01-02T03:04:05Z",
        {"labels": {"a": "b"}},
    )
    assert patch.replicated_jobs == [{"name": "node"}]
    assert (job.spec.suspend, job.spec.active_deadline_seconds) == (True, 5)
    assert job.status == {"conditions": []}
    assert job.problem("spec.trainer.numNodes", "x").line == 14
    assert job.file == "job.yaml"


def test_null_is_the_same_as_absent() -> None:
    data: dict[str, Any] = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job", "creationTimestamp": None},
        "spec": {
            "runtimeRef": {"name": "r", "kind": None},
            "trainer": {"env": None, "args": ["a"]},
            "initializer": None,
        },
    }
    job = load_train_job(data)
    assert job.spec.runtime_ref.kind == "ClusterTrainingRuntime"
    assert job.spec.trainer is not None
    assert job.spec.trainer.env == []
    assert job.raw["spec"] == {"runtimeRef": {"name": "r"}, "trainer": {"args": ["a"]}}
    assert data["metadata"] == {"name": "job", "creationTimestamp": None}


def test_a_job_is_equal_to_what_it_was_made_of(load: Load) -> None:
    job = load(HEAD)
    assert load_train_job(job.raw) == job
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.spec.suspend = True  # type: ignore[misc]


PATCH = "  runtimePatches:\n  - manager: a/b\n    trainingRuntimeSpec: {template: {spec: {replicatedJobs: [%s]}}}\n"
JOBS = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs"


@pytest.mark.parametrize(
    "data",
    [{}, {"spec": []}, {1: 2, "metadata": {3: 4}}, {"kind": "TrainJob", "spec": {"trainer": {"env": ({},)}}}],
    ids=str,
)
def test_any_plain_data_is_refused_properly(data: dict[Any, Any]) -> None:
    with pytest.raises(InvalidError):
        load_train_job(data)


def test_data_that_contains_itself_is_refused() -> None:
    data: dict[str, Any] = {"kind": "TrainJob"}
    data["spec"] = data
    with pytest.raises(InvalidError, match="nested more than 100 levels deep"):
        load_train_job(data)
