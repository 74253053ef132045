"""The TrainJob's own values: trainer, initializers, metadata, suspend."""

from typing import Any

import pytest

from trainyard.contract import labels, names
from trainyard.controller.plan import plan


def test_trainer_values_replace_the_runtimes(train_job: Any, runtime: Any, replicated_job: Any, node: Any) -> None:
    offered = runtime(replicated_job("node", names.TRAINER, container={"command": ["a"], "args": ["b"]}))
    found = node(train_job(trainer={"image": "mine", "command": ["c"], "args": ["d", "e"]}), offered)
    assert found == {"name": "node", "image": "mine", "command": ["c"], "args": ["d", "e"]}
    assert node(train_job(trainer={"args": []}), offered) == {"name": "node", "image": "i", "command": ["a"]}
    assert node(train_job(trainer={"command": [], "image": ""}), offered) == {
        "name": "node",
        "image": "",
        "args": ["b"],
    }


def test_a_trainer_job_may_have_any_name_and_is_forced_to_one_replica(
    train_job: Any, runtime: Any, replicated_job: Any, plan_of: Any
) -> None:
    offered = runtime(
        replicated_job("workers", names.TRAINER, replicas=4),
        metadata={"labels": {labels.WEBHOOK_VALIDATION: labels.WEBHOOK_VALIDATION_DISABLED}},
    )
    (job,) = plan_of(train_job(trainer={"numNodes": 5}), offered)
    assert (job["replicas"], job["template"]["spec"]["parallelism"], job["template"]["spec"]["completions"]) == (
        1,
        5,
        5,
    )


@pytest.mark.parametrize("policy", [None, {}, {"torch": {}}], ids=["no-policy", "plain", "torch"])
def test_resources_apply_with_every_policy(
    train_job: Any, runtime: Any, replicated_job: Any, node: Any, policy: Any
) -> None:
    container = {"resources": {"limits": {"cpu": 2, "memory": "1Gi"}}}
    job = train_job(trainer={"resourcesPerNode": {"limits": {"cpu": 1.5}, "requests": {"memory": "1Gi"}}})
    found = node(job, runtime(replicated_job("node", names.TRAINER, container=container), policy=policy))
    assert found["resources"] == {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"memory": "1Gi"}}


def test_a_variable_of_the_job_replaces_the_runtimes_in_its_place(
    train_job: Any, runtime: Any, replicated_job: Any, node: Any
) -> None:
    container = {"env": [{"name": "A", "value": "r"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}
    job = train_job(trainer={"env": [{"name": "C", "value": "j"}, {"name": "B", "value": "j"}]})
    found = node(job, runtime(replicated_job("node", names.TRAINER, container=container)))
    assert found["env"] == [{"name": "A", "value": "r"}, {"name": "B", "value": "j"}, {"name": "C", "value": "j"}]


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({}, (1, 1)),
        ({"completions": 6}, (1, 6)),
        ({"parallelism": 3}, (3, 3)),
        ({"parallelism": 2, "completions": 6}, (2, 6)),
        ({"parallelism": 0}, (1, 1)),
    ],
    ids=str,
)
def test_a_helper_keeps_its_own_completions(
    train_job: Any, runtime: Any, replicated_job: Any, plan_of: Any, job: Any, expected: tuple[int, int]
) -> None:
    offered = runtime(replicated_job("helper", job=job, replicas=3), replicated_job("node", names.TRAINER))
    helper = plan_of(train_job(trainer={"numNodes": 7}), offered)[0]
    spec = helper["template"]["spec"]
    assert (spec["parallelism"], spec["completions"], helper["replicas"]) == (*expected, 3)


MOUNT = {"volumeMounts": [{"name": "initializer", "mountPath": "/workspace"}]}


@pytest.fixture
def staging(runtime: Any, replicated_job: Any) -> Any:
    """A runtime with both initializers."""
    return runtime(
        *(
            replicated_job(name, name, container={"env": [{"name": "STORAGE_URI", "value": "hf://a/b"}], **MOUNT})
            for name in (names.DATASET_INITIALIZER, names.MODEL_INITIALIZER)
        ),
        replicated_job("node", names.TRAINER),
        template={"volumeClaimPolicies": [{"templates": [{"metadata": {"name": "initializer"}, "spec": {}}]}]},
    )


@pytest.mark.parametrize("kind", ["dataset", "model"])
def test_an_initializer_gets_source_environment_and_secret(train_job: Any, staging: Any, node: Any, kind: str) -> None:
    token = {"name": "ACCESS_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    job = train_job(initializer={kind: {"storageUri": "s3://b/x", "env": [token], "secretRef": {"name": "keys"}}})
    found = node(job, staging, container=f"{kind}-initializer")
    assert found["env"] == [{"name": "STORAGE_URI", "value": "s3://b/x"}, token]
    assert found["envFrom"] == [{"secretRef": {"name": "keys"}}]
    other = {"dataset": "model", "model": "dataset"}[kind]
    assert node(job, staging, container=f"{other}-initializer")["env"] == [{"name": "STORAGE_URI", "value": "hf://a/b"}]


def test_a_storage_uri_in_the_environment_beats_the_field(train_job: Any, staging: Any, node: Any, env_of: Any) -> None:
    env = [{"name": "STORAGE_URI", "value": "s3://from/env"}]
    job = train_job(initializer={"dataset": {"storageUri": "s3://from/field", "env": env}})
    assert env_of(node(job, staging, container="dataset-initializer")) == {"STORAGE_URI": "s3://from/env"}


def test_an_initializer_without_uri_keeps_the_runtimes(train_job: Any, staging: Any, node: Any, env_of: Any) -> None:
    job = train_job(initializer={"model": {"env": [{"name": "A", "value": "1"}]}})
    assert env_of(node(job, staging, container="model-initializer")) == {"STORAGE_URI": "hf://a/b", "A": "1"}


def test_the_job_set_has_the_templates_metadata_and_not_the_train_jobs(train_job: Any, runtime: Any) -> None:
    offered = runtime(around={"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}})
    job = train_job(metadata={"labels": {"mine": "x"}, "annotations": {"mine": "x"}})
    assert plan(job, offered).job_set["metadata"] == {
        "name": "demo",
        "namespace": "default",
        "labels": {"a": "1"},
        "annotations": {"b": "2"},
    }


@pytest.mark.parametrize("suspend", [True, False])
def test_suspend_is_the_train_jobs(train_job: Any, runtime: Any, suspend: bool) -> None:
    offered = runtime(template={"suspend": not suspend})
    assert plan(train_job(suspend=suspend), offered).job_set["spec"]["suspend"] is suspend


def test_objects_belong_to_a_train_job_that_has_a_uid(train_job: Any, runtime: Any) -> None:
    owned = plan(train_job(metadata={"uid": "u", "namespace": "ns"}), runtime())
    reference = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": "demo",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert [manifest["metadata"]["ownerReferences"] for manifest in owned.objects] == [[reference]] * 2
    assert {manifest["metadata"]["namespace"] for manifest in owned.objects} == {"ns"}
    assert all("ownerReferences" not in manifest["metadata"] for manifest in plan(train_job(), runtime()).objects)


def test_a_trainer_that_no_job_takes_is_warned_of(train_job: Any, runtime: Any, replicated_job: Any) -> None:
    offered = runtime(replicated_job("helper"))
    assert plan(train_job(trainer={"numNodes": 2}), offered).warnings == (
        (
            "spec.trainer has no effect: runtime 'custom' has no job labelled "
            "trainer.kubeflow.org/trainjob-ancestor-step: trainer with a container 'node'"
        ),
    )
    assert plan(train_job(), offered).warnings == ()
