"""runtimePatches: what they change, and what they must not."""

from typing import Any

import pytest

from trainyard.contract import names
from trainyard.controller.api.problem import InvalidError
from trainyard.controller.plan import plan


def patch(*jobs: dict[str, Any], manager: str = "example.com/me", **metadata: Any) -> dict[str, Any]:
    template: dict[str, Any] = {"spec": {"replicatedJobs": list(jobs)}} if jobs else {}
    return {
        "manager": manager,
        "trainingRuntimeSpec": {"template": template | ({"metadata": metadata} if metadata else {})},
    }


def job_patch(name: str = "node", *, job: Any = None, pod: Any = None, **spec: Any) -> dict[str, Any]:
    pod_template = {"spec": spec} | ({"metadata": pod} if pod else {})
    return {"name": name, "template": {"spec": {"template": pod_template}} | ({"metadata": job} if job else {})}


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    return dict(job["template"]["spec"]["template"]["spec"])


def test_patches_apply_in_the_order_of_the_list(train_job: Any, runtime: Any, plan_of: Any) -> None:
    job = train_job(
        runtimePatches=[
            patch(job_patch(nodeSelector={"a": "1", "b": "1"}), manager="example.com/first"),
            patch(job_patch(nodeSelector={"b": "2"}), manager="example.com/second"),
        ]
    )
    assert pod_of(plan_of(job, runtime())[0])["nodeSelector"] == {"a": "1", "b": "2"}


def test_metadata_reaches_job_set_job_and_pod(train_job: Any, runtime: Any) -> None:
    job = train_job(
        runtimePatches=[
            patch(
                job_patch(job={"labels": {"j": "1"}}, pod={"annotations": {"p": "1"}}),
                labels={"s": "2"},
                annotations={"t": "1"},
            )
        ]
    )
    offered = runtime(around={"metadata": {"labels": {"s": "1", "r": "1"}}})
    job_set = plan(job, offered).job_set
    assert job_set["metadata"]["labels"] == {"s": "2", "r": "1"}
    assert job_set["metadata"]["annotations"] == {"t": "1"}
    (replicated,) = job_set["spec"]["replicatedJobs"]
    assert replicated["template"]["metadata"]["labels"]["j"] == "1"
    assert replicated["template"]["spec"]["template"]["metadata"] == {"annotations": {"p": "1"}}


def test_jobs_keep_the_runtimes_order(train_job: Any, runtime: Any, replicated_job: Any, plan_of: Any) -> None:
    offered = runtime(*(replicated_job(name) for name in ("a", "b", "c")))
    job = train_job(
        runtimePatches=[patch(job_patch("c", nodeSelector={"x": "1"}), job_patch("a", nodeSelector={"x": "1"}))]
    )
    assert [replicated["name"] for replicated in plan_of(job, offered)] == ["a", "b", "c"]


def test_patches_come_before_the_jobs_own_values(
    train_job: Any, runtime: Any, replicated_job: Any, node: Any, env_of: Any
) -> None:
    sidecar = {"initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}]}
    offered = runtime(replicated_job("node", names.TRAINER, pod=sidecar))
    containers = [{"name": "node", "securityContext": {"runAsUser": 7}}]
    init = [{"name": "side", "env": [{"name": "A", "value": "patched"}]}]
    job = train_job(
        trainer={"image": "mine"}, runtimePatches=[patch(job_patch(containers=containers, initContainers=init))]
    )
    assert node(job, offered) == {"name": "node", "image": "mine", "securityContext": {"runAsUser": 7}}
    assert env_of(node(job, offered, container="side")) == {"A": "patched"}


def test_a_patched_volume_replaces_the_one_of_its_name(
    train_job: Any, runtime: Any, replicated_job: Any, plan_of: Any
) -> None:
    offered = runtime(replicated_job("node", names.TRAINER, pod={"volumes": [{"name": "v", "emptyDir": {}}]}))
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    job = train_job(runtimePatches=[patch(job_patch(volumes=[claim]))])
    assert pod_of(plan_of(job, offered)[0])["volumes"] == [claim]


def test_an_empty_list_in_a_patch_changes_nothing(train_job: Any, runtime: Any, replicated_job: Any) -> None:
    pod = {
        "tolerations": [{"key": "a"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "securityContext": {"supplementalGroups": [1]},
    }
    offered = runtime(replicated_job("node", names.TRAINER, pod=pod))
    empty = job_patch(tolerations=[], volumes=[], containers=[], securityContext={"supplementalGroups": []})
    patched = plan(train_job(runtimePatches=[patch(empty)]), offered).job_set
    assert patched == plan(train_job(), offered).job_set


def test_only_labels_and_annotations_count_in_a_patchs_metadata(train_job: Any, runtime: Any, plan_of: Any) -> None:
    more = {"name": "x", "namespace": "y", "uid": "u", "creationTimestamp": "2026-11-20T10:00:00Z"}
    job = train_job(runtimePatches=[patch(job_patch(job={"labels": {"a": "b"}, **more}, pod={**more}), **more)])
    (replicated,) = plan_of(job, runtime())
    assert set(replicated["template"]["metadata"]) == {"labels"}
    assert not replicated["template"]["spec"]["template"].get("metadata")
    assert set(plan(job, runtime()).job_set["metadata"]) == {"name", "namespace"}


AT = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
POD = f"{AT}.template.spec.template.spec"


@pytest.mark.parametrize(
    ("patched", "refused"),
    [
        (
            job_patch("nodes", nodeSelector={"a": "1"}),
            (
                f"{AT}.name: runtime 'custom' has no replicated job called 'nodes'; it has 'dataset-initializer', "
                "'node'; did you mean 'node'?"
            ),
        ),
        (
            job_patch(containers=[{"name": "trainer"}]),
            (
                f"{POD}.containers[0].name: runtime 'custom' has no container of the job 'node' called 'trainer'; it "
                "has 'node', 'side'"
            ),
        ),
        (
            job_patch(initContainers=[{"name": "node"}]),
            (
                f"{POD}.initContainers[0].name: runtime 'custom' has no init container of the job 'node' called 'node'"
                "; it has none"
            ),
        ),
        (
            job_patch(containers=[{"name": "node", "env": [{"name": "A", "value": "1"}]}]),
            f"{POD}.containers[0].env: must not have envs for the container 'node'; set them in spec.trainer.env",
        ),
        (
            job_patch("dataset-initializer", containers=[{"name": "dataset-initializer", "env": [{"name": "A"}]}]),
            (
                f"{POD}.containers[0].env: must not have envs for the container 'dataset-initializer'; set them in "
                "spec.initializer.dataset.env"
            ),
        ),
        (
            job_patch(job={"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}),
            (
                f"{AT}.template.metadata.labels['trainer.kubeflow.org/trainjob-ancestor-step']: the label says what "
                "the runtime's job is for and cannot be patched"
            ),
        ),
    ],
    ids=["job", "container", "init-container", "env-of-node", "env-of-initializer", "ancestor"],
)
def test_what_a_patch_must_not_do_is_refused_with_its_path(
    train_job: Any, runtime: Any, replicated_job: Any, refusals: Any, patched: Any, refused: str
) -> None:
    side = {"containers": [{"name": "node", "image": "i"}, {"name": "side", "image": "i"}]}
    offered = runtime(
        replicated_job("dataset-initializer", names.DATASET_INITIALIZER),
        replicated_job("node", names.TRAINER, pod=side),
    )
    assert refusals(train_job(runtimePatches=[patch(patched)]), offered) == [refused]


@pytest.mark.parametrize(
    "pod",
    [
        {"$patch": "replace"},
        {"containers": [{"name": "node", "$patch": "delete"}]},
        {"containers": [{"name": "node", "image": "x"}]},
        {"priorityClassName": "high"},
    ],
    ids=["directive", "delete", "image", "field"],
)
def test_what_the_api_does_not_let_a_patch_say_is_refused_on_loading(train_job: Any, pod: Any) -> None:
    with pytest.raises(InvalidError, match="unknown field"):
        train_job(runtimePatches=[patch(job_patch(**pod))])


def test_a_manager_without_a_domain_is_refused_on_loading(train_job: Any) -> None:
    with pytest.raises(InvalidError, match=r"spec\.runtimePatches\[0\]\.manager"):
        train_job(runtimePatches=[patch(manager="me")])
