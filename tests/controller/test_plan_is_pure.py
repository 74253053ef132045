"""plan() depends on its arguments alone, changes none of them, and is quick."""

import json
import time
from copy import deepcopy
from typing import Any

import pytest
import yaml

from trainyard.controller.api.documents import read_text
from trainyard.controller.api.load import load_runtime, load_train_job
from trainyard.controller.plan import Features, plan
from trainyard.controller.runtimes import shipped_runtimes

PATCH = {
    "manager": "example.com/me",
    "trainingRuntimeSpec": {
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "replicatedJobs": [
                    {"name": "node", "template": {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}}
                ]
            },
        }
    },
}
SPEC: dict[str, Any] = {
    "initializer": {"dataset": {"storageUri": "file:///d", "env": [{"name": "A", "value": "1"}]}},
    "trainer": {
        "command": ["tune", "run"],
        "args": ["model.lora_attn_modules=[q]"],
        "env": [{"name": "B", "value": "1"}],
        "resourcesPerNode": {"limits": {"cpu": 1.5}},
    },
    "runtimePatches": [PATCH],
}


def test_what_comes_in_is_not_changed(train_job: Any) -> None:
    job, runtime = train_job("torchtune-llama3.2-1b", **deepcopy(SPEC)), shipped_runtimes()["torchtune-llama3.2-1b"]
    before = deepcopy((job.raw, runtime.raw, job, runtime))
    plan(job, runtime, features=Features(train_job_status=True))
    assert (job.raw, runtime.raw, job, runtime) == before


def test_a_plan_is_plain_json_that_shares_nothing_with_its_input(train_job: Any) -> None:
    job, runtime = train_job("torchtune-llama3.2-1b", **deepcopy(SPEC)), shipped_runtimes()["torchtune-llama3.2-1b"]
    before = deepcopy(runtime.raw)
    made = plan(job, runtime)
    assert json.loads(json.dumps(made.objects)) == list(made.objects)
    containers = [
        container
        for replicated in made.job_set["spec"]["replicatedJobs"]
        for container in replicated["template"]["spec"]["template"]["spec"]["containers"]
    ]
    for container in containers:
        container["env"].clear()
        container["volumeMounts"].clear()
    assert runtime.raw == before
    assert plan(job, runtime).job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] != containers


def test_a_plan_of_the_snapshot_is_the_same_plan(train_job: Any) -> None:
    runtime = shipped_runtimes()["torchtune-llama3.2-1b"]
    made = plan(train_job("torchtune-llama3.2-1b", **SPEC), runtime)
    kept = load_runtime(yaml.safe_load(made.objects[0]["data"]["runtime"]))
    assert plan(train_job("torchtune-llama3.2-1b", **SPEC), kept).objects[0] == made.objects[0]
    again = plan(train_job("torchtune-llama3.2-1b", **SPEC), kept)
    assert json.dumps(again.objects, sort_keys=True) == json.dumps(made.objects, sort_keys=True)


def test_a_snapshot_holds_nothing_that_only_the_server_knows(train_job: Any, runtime: Any) -> None:
    metadata = {
        "labels": {"a": "b"},
        "annotations": {"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "uid": "u",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-11-20T10:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
    }
    snapshot = plan(train_job("custom"), runtime(metadata=metadata)).objects[0]
    assert snapshot["metadata"]["name"] == "demo-runtime-snapshot" and snapshot["immutable"] is True
    kept = yaml.safe_load(snapshot["data"]["runtime"])
    assert kept["metadata"] == {"name": "custom", "labels": {"a": "b"}, "annotations": {"note": "x"}}
    assert kept["kind"] == "ClusterTrainingRuntime"


@pytest.mark.parametrize(
    "text", ["y", "N", "1e3", "1e-4", "0o17", "on", "1:30", "2020-01-01", "null", "", " x", "a: b"]
)
def test_a_snapshot_reads_the_same_for_every_reader(
    train_job: Any, runtime: Any, replicated_job: Any, text: str
) -> None:
    container = {"args": [text], "env": [{"name": "A", "value": text}]}
    pod = {"nodeSelector": {text: text}} if text.isalnum() else {}
    offered = runtime(replicated_job("node", "trainer", container=container, pod=pod))
    kept = plan(train_job("custom"), offered).objects[0]["data"]["runtime"]
    as_kubernetes_reads_it = read_text(kept).runtimes[0].data
    assert as_kubernetes_reads_it == yaml.safe_load(kept) == load_runtime(as_kubernetes_reads_it).raw
    assert load_runtime(as_kubernetes_reads_it) == offered


def test_a_thousand_nodes_are_planned_in_less_than_20_ms_of_cpu(train_job: Any) -> None:
    runtime = shipped_runtimes()["torch-distributed"]
    job = train_job("torch-distributed", trainer={"numNodes": 1000})
    plan(job, runtime)
    best = float("inf")
    for _ in range(10):
        start = time.process_time()
        plan(job, runtime)
        best = min(best, time.process_time() - start)
    assert best < 0.020


@pytest.mark.parametrize("key_order", ["as-written", "sorted"])
def test_the_order_of_keys_in_the_input_does_not_matter(key_order: str) -> None:
    runtime = shipped_runtimes()["torchtune-distributed"].raw
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "demo"},
        "spec": {"runtimeRef": {"name": "torchtune-distributed"}, **SPEC},
    }
    made = plan(load_train_job(job), load_runtime(runtime))
    if key_order == "sorted":
        job, runtime = (json.loads(json.dumps(value, sort_keys=True)) for value in (job, runtime))
    again = plan(load_train_job(job), load_runtime(runtime))
    assert list(again.objects) == list(made.objects)
