"""Refusals and warnings, with their text."""

from typing import Any

import pytest

from trainyard.contract import labels, names
from trainyard.controller.api.documents import read_text
from trainyard.controller.api.load import load_runtime, load_train_job
from trainyard.controller.api.problem import InvalidError
from trainyard.controller.lint import lint, lint_runtime
from trainyard.controller.plan import plan


def errors(findings: Any) -> list[str]:
    return [str(problem) for problem in findings.errors]


@pytest.mark.parametrize(
    ("reference", "refused"),
    [
        (
            {"kind": "OtherRuntime"},
            (
                "spec.runtimeRef.kind: unsupported runtime: OtherRuntime.trainer.kubeflow.org; expected "
                "ClusterTrainingRuntime or TrainingRuntime of trainer.kubeflow.org"
            ),
        ),
        (
            {"apiGroup": "example.com"},
            (
                "spec.runtimeRef.apiGroup: unsupported runtime: ClusterTrainingRuntime.example.com; expected "
                "ClusterTrainingRuntime or TrainingRuntime of trainer.kubeflow.org"
            ),
        ),
    ],
)
def test_unsupported_kinds_of_runtime(train_job: Any, refusals: Any, reference: Any, refused: str) -> None:
    assert refusals(train_job(reference=reference), None) == [refused]


@pytest.mark.parametrize("policy", ["mpi", "jax", "xgboost", "flux"])
def test_a_policy_that_no_plugin_handles(train_job: Any, runtime: Any, refusals: Any, policy: str) -> None:
    assert refusals(train_job(), runtime(policy={policy: {}})) == [
        (
            f"spec.mlPolicy.{policy}: runtime 'custom': the policy {policy!r} is not supported by this version of "
            "trainyard; supported are torch, and what installed plugins handle"
        )
    ]


@pytest.mark.parametrize("policy", ["coscheduling", "volcano"])
def test_a_pod_group_policy_that_no_plugin_handles_is_warned_of(train_job: Any, runtime: Any, policy: str) -> None:
    findings = lint(train_job(), runtime(podGroupPolicy={policy: {}}))
    assert findings.errors == ()
    assert findings.warnings == (
        (
            f"runtime 'custom': podGroupPolicy {policy!r} is not supported by this version of trainyard; its pods are "
            "scheduled one by one"
        ),
    )


def test_a_deprecated_cluster_runtime_is_warned_of(train_job: Any, runtime: Any) -> None:
    deprecated = {"labels": {labels.SUPPORT: labels.SUPPORT_DEPRECATED}}
    text = "ClusterTrainingRuntime 'custom' is deprecated and may be removed; choose another runtime"
    assert lint(train_job(), runtime(metadata=deprecated)).warnings == (text,)
    assert plan(train_job(), runtime(metadata=deprecated)).warnings == (text,)
    assert lint(train_job(), runtime(metadata=deprecated, kind=names.TRAINING_RUNTIME)).warnings == ()


MOUNT = {"volumeMounts": [{"name": "initializer", "mountPath": "/workspace"}]}


@pytest.mark.parametrize("field", ["dataset", "model"])
def test_an_initializer_needs_job_label_container_and_volume(
    train_job: Any, runtime: Any, replicated_job: Any, refusals: Any, field: str
) -> None:
    name = f"{field}-initializer"
    job = train_job(initializer={field: {"storageUri": "hf://a/b"}})
    start = f"spec.initializer.{field}: the runtime 'custom' of spec.runtimeRef must have"
    ancestor = labels.ANCESTOR_STEP
    assert refusals(job, runtime()) == [f"{start} a replicated job {name!r}"]
    assert refusals(job, runtime(replicated_job(name, container=MOUNT))) == [
        f"{start} the label {ancestor}: {name} on its replicated job {name!r}"
    ]
    unchecked = {"labels": {labels.WEBHOOK_VALIDATION: labels.WEBHOOK_VALIDATION_DISABLED}}
    assert refusals(job, runtime(replicated_job(name, name, container={"name": "other"}), metadata=unchecked)) == [
        f"{start} a container {name!r} in its replicated job {name!r}"
    ]
    assert refusals(job, runtime(replicated_job(name, name))) == [
        f"{start} a volume 'initializer' mounted in the container {name!r}"
    ]
    volumes = {"volumes": [{"name": "initializer", "emptyDir": {}}]}
    assert refusals(job, runtime(replicated_job(name, name, container=MOUNT, pod=volumes))) == []


JOB = "spec.template.spec.replicatedJobs[0]"


@pytest.mark.parametrize(
    ("ancestor", "container"),
    [("trainer", "node"), ("dataset-initializer", "dataset-initializer"), ("model-initializer", "model-initializer")],
)
def test_a_runtimes_jobs_have_one_replica_and_their_container(
    train_job: Any, runtime: Any, replicated_job: Any, refusals: Any, ancestor: str, container: str
) -> None:
    broken = replicated_job("job", ancestor, container={"name": "main"}, replicas=2)
    expected = [
        f"{JOB}.replicas: runtime 'custom': always must be 1 for the {ancestor} job, got 2",
        (
            f"{JOB}.template.spec.template.spec.containers: runtime 'custom': must have the container {container!r} in "
            f"the {ancestor} job, got 'main'"
        ),
    ]
    assert errors(lint_runtime(runtime(broken))) == expected
    assert refusals(train_job(), runtime(broken)) == expected
    unchecked = runtime(broken, metadata={"labels": {labels.WEBHOOK_VALIDATION: "disabled"}})
    assert errors(lint_runtime(unchecked)) == []


def test_a_pod_failure_policy_needs_pods_that_never_restart(
    runtime: Any, replicated_job: Any, train_job: Any, refusals: Any
) -> None:
    policy = {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [64]}}]}}
    place = f"{JOB}.template.spec.template.spec.restartPolicy: runtime 'custom': must be Never with a podFailurePolicy"
    absent = runtime(replicated_job("node", names.TRAINER, job=policy))
    assert refusals(train_job(), absent) == [f"{place}, got nothing, which means OnFailure"]
    other = runtime(replicated_job("node", names.TRAINER, job=policy, pod={"restartPolicy": "OnFailure"}))
    assert refusals(train_job(), other) == [f"{place}, got OnFailure"]
    assert refusals(train_job(), runtime(replicated_job("n", job=policy, pod={"restartPolicy": "Never"}))) == []


def test_a_deprecated_runtime_is_warned_of_when_it_is_checked(runtime: Any) -> None:
    findings = lint_runtime(runtime(metadata={"labels": {labels.SUPPORT: "deprecated"}}))
    assert findings.warnings == (
        "ClusterTrainingRuntime 'custom' is deprecated and may be removed; choose another runtime",
    )


@pytest.mark.parametrize(
    ("length", "nodes", "ok"),
    # <name>-node-0-0-abcde must not be longer than 63.
    [(48, 1, True), (49, 1, False), (48, 10, True), (48, 11, False), (47, 11, True)],
)
def test_a_name_must_leave_room_for_the_pods_names(
    train_job: Any, runtime: Any, refusals: Any, length: int, nodes: int, ok: bool
) -> None:
    name = "a" * length
    found = refusals(train_job(name=name, trainer={"numNodes": nodes}), runtime())
    if ok:
        assert found == []
    else:
        longest = f"{name}-node-0-{nodes - 1}-abcde"
        assert found == [
            (
                f"metadata.name: expected at most {length - 1} characters with runtime 'custom', got {length}: "
                f"{longest!r} would be longer than 63"
            )
        ]


def test_a_name_must_leave_room_for_the_claims_names(train_job: Any, runtime: Any, refusals: Any) -> None:
    claims = [{"templates": [{"metadata": {"name": "a-claim-with-a-long-name"}, "spec": {}}]}]
    (refused,) = refusals(train_job(name="a" * 40), runtime(template={"volumeClaimPolicies": claims}))
    assert refused.startswith("metadata.name: expected at most 38 characters with runtime 'custom', got 40")


REFUSED = "; a cluster would refuse the pods"


def warnings(job: Any, runtime: Any) -> list[str]:
    findings = lint(job, runtime)
    assert findings.errors == ()
    return [text.removesuffix(REFUSED) for text in findings.warnings if text.endswith(REFUSED)]


def patching(**pod: Any) -> list[dict[str, Any]]:
    patch = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    return [{"manager": "a.com/b", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [patch]}}}}]


def test_a_mount_without_volume_is_warned_of_where_it_stands(train_job: Any, runtime: Any, replicated_job: Any) -> None:
    pod = {"volumes": [{"name": "data", "emptyDir": {}}]}
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/a"}, {"name": "dat", "mountPath": "/b"}]}
    offered = runtime(replicated_job("node", names.TRAINER, container=mounts, pod=pod))
    (warning,) = warnings(train_job(), offered)
    assert warning == (
        f"{JOB}.template.spec.template.spec.containers[0].volumeMounts[1].name: runtime 'custom': no volume 'dat' in "
        "the job 'node'; it has data"
    )
    assert warnings(train_job(runtimePatches=patching(volumes=[{"name": "dat", "emptyDir": {}}])), offered) == []


def test_a_patched_mount_without_volume_is_warned_of(train_job: Any, runtime: Any) -> None:
    containers = [{"name": "node", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}]
    assert warnings(train_job(runtimePatches=patching(containers=containers)), runtime()) == [
        "spec.runtimePatches: with runtime 'custom', no volume 'x' in the job 'node'; it has none"
    ]


def test_claims_of_the_job_set_are_volumes(train_job: Any, runtime: Any, replicated_job: Any) -> None:
    claims = [{"templates": [{"metadata": {"name": "initializer"}, "spec": {}}]}]
    offered = runtime(replicated_job("node", names.TRAINER, container=MOUNT), template={"volumeClaimPolicies": claims})
    assert warnings(train_job(), offered) == []


def test_requests_above_limits_are_warned_of(train_job: Any, runtime: Any, replicated_job: Any) -> None:
    container = {"resources": {"limits": {"cpu": "1000m", "nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": 2}}}
    offered = runtime(replicated_job("node", names.TRAINER, container=container))
    start = "spec.trainer.resourcesPerNode: with runtime 'custom', container 'node': requests of"
    assert warnings(train_job(trainer={"resourcesPerNode": {"requests": {"cpu": "1"}}}), offered) == []
    assert warnings(train_job(trainer={"resourcesPerNode": {"requests": {"cpu": 2}}}), offered) == [
        f"{start} cpu (2) must not exceed its limits (1000m)"
    ]
    assert warnings(train_job(trainer={"resourcesPerNode": {"limits": {"nvidia.com/gpu": 4}}}), offered) == [
        f"{start} nvidia.com/gpu (2) must equal its limits (4)"
    ]
    wrong = {"resources": {"limits": {"cpu": 1}, "requests": {"cpu": 2}}}
    (warning,) = warnings(train_job(), runtime(replicated_job("node", names.TRAINER, container=wrong)))
    assert warning == (
        f"{JOB}.template.spec.template.spec.containers[0].resources: runtime 'custom': container 'node': requests of "
        "cpu (2) must not exceed its limits (1)"
    )


def test_a_claim_that_the_pods_do_not_have_and_a_missing_image_are_warned_of(train_job: Any, runtime: Any) -> None:
    assert warnings(train_job(trainer={"resourcesPerNode": {"claims": [{"name": "gpus"}]}}), runtime()) == [
        (
            "spec.trainer.resourcesPerNode: with runtime 'custom', container 'node': no resource claim 'gpus' in "
            "the job 'node'"
        )
    ]
    assert warnings(train_job(trainer={"image": ""}), runtime()) == [
        "spec.trainer.image: with runtime 'custom', container 'node' of the job 'node' has no image"
    ]


def test_a_failure_rule_has_a_name_that_job_set_takes(runtime: Any) -> None:
    rules = [{"name": name, "action": "FailJobSet"} for name in ("fine_one", "not-fine", "A")]
    assert errors(lint_runtime(runtime(template={"failurePolicy": {"rules": rules}}))) == [
        (
            "spec.template.spec.failurePolicy.rules[1].name: runtime 'custom': expected a letter, then letters, digits "
            "and '_,:', got 'not-fine'"
        )
    ]


def test_every_problem_is_reported_at_once(train_job: Any, runtime: Any, refusals: Any) -> None:
    job = train_job(initializer={"dataset": {}, "model": {}}, trainer={"env": [{"name": "PET_NNODES", "value": "1"}]})
    found = refusals(job, runtime(policy={"torch": {}}))
    assert [text.split(":")[0] for text in found] == [
        "spec.initializer.dataset",
        "spec.initializer.model",
        "spec.trainer.env[0].name",
    ]


def test_refusals_know_file_and_line() -> None:
    text = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: demo
spec:
  runtimeRef:
    name: mine
  trainer:
    env:
      - name: PET_NNODES
        value: "2"
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: mine
spec:
  mlPolicy:
    torch: {}
  template:
    spec:
      replicatedJobs:
        - name: node
          replicas: 2
          template:
            metadata:
              labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}
            spec:
              template:
                spec:
                  containers:
                    - name: node
                      image: busybox
"""
    documents = read_text(text, "job.yaml")
    job, runtime = load_train_job(documents.train_jobs[0]), load_runtime(documents.runtimes[0])
    with pytest.raises(InvalidError) as caught:
        plan(job, runtime)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("job.yaml:24: spec.template.spec.replicatedJobs[0].replicas: runtime 'mine'")
    assert lines[1].startswith("job.yaml:10: spec.trainer.env[0].name: must not have reserved envs")
