"""Torch: the variables of torchrun."""

from typing import Any

import pytest

from trainyard.contract import env, names

TORCH: dict[str, Any] = {"torch": {}}
RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}


def test_the_five_variables_and_the_port_are_there(train_job: Any, runtime: Any, node: Any, env_of: Any) -> None:
    container = node(train_job(trainer={"numNodes": 3, "numProcPerNode": 2}), runtime(policy=TORCH))
    assert env_of(container) == {
        "PET_NNODES": "3",
        "PET_NPROC_PER_NODE": "2",
        "PET_NODE_RANK": RANK,
        "PET_MASTER_ADDR": "demo-node-0-0.demo",
        "PET_MASTER_PORT": "29500",
    }
    assert container["ports"] == [{"containerPort": 29500}]


def test_they_are_there_without_a_trainer_in_the_train_job(
    train_job: Any, runtime: Any, node: Any, env_of: Any
) -> None:
    bare = node(train_job(), runtime(policy={**TORCH, "numNodes": 2}))
    given = node(train_job(trainer={}), runtime(policy={**TORCH, "numNodes": 2}))
    assert bare == given and env_of(bare)["PET_NNODES"] == "2"


def test_the_frameworks_value_beats_the_runtimes_and_stays_in_its_place(
    train_job: Any, runtime: Any, replicated_job: Any, node: Any
) -> None:
    container = {
        "env": [{"name": "PET_NNODES", "value": "9"}, {"name": "A", "value": "r"}, {"name": "B", "value": "r"}]
    }
    job = train_job(trainer={"env": [{"name": "B", "value": "j"}, {"name": "C", "value": "j"}]})
    found = node(job, runtime(replicated_job("node", names.TRAINER, container=container), policy=TORCH))["env"]
    assert [(entry["name"], entry.get("value")) for entry in found] == [
        ("PET_NNODES", "1"),
        ("A", "r"),
        ("B", "j"),
        ("C", "j"),
        ("PET_NPROC_PER_NODE", "1"),
        ("PET_NODE_RANK", None),
        ("PET_MASTER_ADDR", "demo-node-0-0.demo"),
        ("PET_MASTER_PORT", "29500"),
    ]


def test_processes_come_from_the_merged_resources(
    train_job: Any, runtime: Any, replicated_job: Any, node: Any, env_of: Any
) -> None:
    container = {"resources": {"limits": {"nvidia.com/gpu": "4", "cpu": "64"}}}
    job = train_job(trainer={"resourcesPerNode": {"limits": {"memory": "64Gi"}}})
    found = node(job, runtime(replicated_job("node", names.TRAINER, container=container), policy=TORCH))
    assert env_of(found)["PET_NPROC_PER_NODE"] == "auto"
    assert found["resources"] == {"limits": {"nvidia.com/gpu": "4", "cpu": "64", "memory": "64Gi"}}


def test_claims_of_the_runtime_survive_resources_of_the_job(
    train_job: Any, runtime: Any, replicated_job: Any, node: Any, env_of: Any
) -> None:
    container = {"resources": {"claims": [{"name": "gpus"}]}}
    job = train_job(trainer={"resourcesPerNode": {"limits": {"cpu": 8}}})
    found = node(job, runtime(replicated_job("node", names.TRAINER, container=container), policy=TORCH))
    assert found["resources"] == {"claims": [{"name": "gpus"}], "limits": {"cpu": "8"}}
    assert env_of(found)["PET_NPROC_PER_NODE"] == "auto"


def test_the_masters_address_follows_the_subdomain_and_the_trainer_jobs_name(
    train_job: Any, runtime: Any, replicated_job: Any, node: Any, env_of: Any
) -> None:
    offered = runtime(
        replicated_job("worker", names.TRAINER), policy=TORCH, template={"network": {"subdomain": "training"}}
    )
    assert env_of(node(train_job(), offered))["PET_MASTER_ADDR"] == "demo-worker-0-0.training"


def test_a_port_of_that_number_is_replaced_in_its_place(
    train_job: Any, runtime: Any, replicated_job: Any, node: Any
) -> None:
    container = {"ports": [{"name": "rendezvous", "containerPort": 29500}, {"containerPort": 1}]}
    found = node(train_job(), runtime(replicated_job("node", names.TRAINER, container=container), policy=TORCH))
    assert found["ports"] == [{"containerPort": 29500}, {"containerPort": 1}]


def test_zero_nodes_are_no_pods(train_job: Any, runtime: Any, plan_of: Any) -> None:
    spec = plan_of(train_job(trainer={"numNodes": 0}), runtime(policy={**TORCH, "numNodes": 3}))[0]["template"]["spec"]
    assert (spec["parallelism"], spec["completions"]) == (0, 0)


def test_zero_nodes_of_the_runtime_mean_one(train_job: Any, runtime: Any, plan_of: Any) -> None:
    spec = plan_of(train_job(), runtime(policy={**TORCH, "numNodes": 0}))[0]["template"]["spec"]
    assert (spec["parallelism"], spec["completions"]) == (1, 1)


@pytest.mark.parametrize("name", env.RESERVED_TORCH)
def test_reserved_variables_are_refused(name: str, train_job: Any, runtime: Any, refusals: Any) -> None:
    job = train_job(trainer={"env": [{"name": "A", "value": "1"}, {"name": name, "value": "1"}]})
    (refused,) = refusals(job, runtime(policy=TORCH))
    assert refused == (
        f"spec.trainer.env[1].name: must not have reserved envs, got {name!r}; the torch policy sets PET_NNODES, "
        "PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR, PET_MASTER_PORT"
    )


def test_they_are_not_reserved_with_another_policy(train_job: Any, runtime: Any, refusals: Any) -> None:
    assert refusals(train_job(trainer={"env": [{"name": "PET_NNODES", "value": "1"}]}), runtime()) == []


def injecting(job: str, *containers: str) -> dict[str, Any]:
    return {"torch": {"envInjection": {"targets": [{"jobName": job, "containerNames": list(containers)}]}}}


def test_injection_targets_get_all_five_also_with_tune_run(
    train_job: Any, runtime: Any, replicated_job: Any, node: Any, env_of: Any
) -> None:
    trainer = replicated_job("node", names.TRAINER, pod={"initContainers": [{"name": "probe", "image": "i"}]})
    offered = runtime(trainer, policy=injecting("node", "probe"), metadata={"annotations": {"trainyard/model": "auto"}})
    job = train_job(trainer={"command": ["tune", "run"], "numNodes": 2})
    assert list(env_of(node(job, offered, container="probe"))) == list(env.RESERVED_TORCH)
    assert list(env_of(node(job, offered))) == ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"]


def test_a_missing_injection_target_is_refused(train_job: Any, runtime: Any, refusals: Any) -> None:
    targets = "spec.mlPolicy.torch.envInjection.targets[0]"
    assert refusals(train_job(), runtime(policy=injecting("nodes", "probe"))) == [
        f"{targets}.jobName: runtime 'custom': the template has no replicated job 'nodes'"
    ]
    assert refusals(train_job(), runtime(policy=injecting("node", "probe"))) == [
        f"{targets}.containerNames[0]: runtime 'custom': the job 'node' of the template has no container 'probe'"
    ]
