"""What may change in a TrainJob after it was created."""

from typing import Any

import pytest

from trainyard.controller.lint import lint


def changes(old: Any, new: Any, runtime: Any) -> list[str]:
    return [str(problem) for problem in lint(new, runtime, old=old).errors]


@pytest.mark.parametrize(
    ("field", "before", "after"),
    [
        ("trainer", {"numNodes": 1}, {"numNodes": 2}),
        ("activeDeadlineSeconds", 5, 6),
        ("initializer", {}, {"dataset": {}}),
    ],
)
@pytest.mark.parametrize("done", ["added", "removed", "changed"])
@pytest.mark.parametrize("suspend", [True, False])
def test_fields_that_last_can_be_neither_added_nor_removed_nor_changed(
    train_job: Any, field: str, before: Any, after: Any, done: str, suspend: bool
) -> None:
    old = train_job(suspend=suspend, **({} if done == "added" else {field: before}))
    new = train_job(suspend=suspend, **({} if done == "removed" else {field: after}))
    assert changes(old, new, None) == [
        f"spec.{field}: field is immutable: it cannot be {done} after the TrainJob was created"
    ]
    assert changes(old, old, None) == []


@pytest.mark.parametrize(
    ("field", "options"),
    [("runtimeRef", {"reference": {"name": "other"}}), ("managedBy", {"managedBy": "kueue.x-k8s.io/multikueue"})],
)
def test_runtime_and_manager_last(train_job: Any, field: str, options: Any) -> None:
    assert changes(train_job(), train_job(**options), None) == [
        f"spec.{field}: field is immutable: it cannot be changed after the TrainJob was created"
    ]


def test_suspend_and_equal_quantities_may_change(train_job: Any, runtime: Any) -> None:
    old = train_job(suspend=True, trainer={"resourcesPerNode": {"limits": {"cpu": "1"}}})
    new = train_job(suspend=False, trainer={"resourcesPerNode": {"limits": {"cpu": "1000m"}}})
    assert changes(old, new, runtime()) == []


def patch(
    manager: str = "example.com/me", *, metadata: Any = None, pod: Any = None, job: Any = None, **spec: Any
) -> Any:
    pod_template = {"spec": spec, **({"metadata": pod} if pod else {})}
    template = {"spec": {"template": pod_template}, **({"metadata": job} if job else {})}
    inside = {"spec": {"replicatedJobs": [{"name": "node", "template": template}]}}
    return {
        "manager": manager,
        "trainingRuntimeSpec": {"template": inside | ({"metadata": metadata} if metadata else {})},
    }


CHANGEABLE = [
    {"metadata": {"labels": {"a": "1"}}},
    {"pod": {"labels": {"a": "1"}, "annotations": {"b": "1"}}},
    {"nodeSelector": {"zone": "a"}},
    {"tolerations": [{"key": "gpu"}]},
    {"schedulingGates": [{"name": "gate"}]},
]


@pytest.mark.parametrize("parts", CHANGEABLE, ids=lambda parts: next(iter(parts)))
@pytest.mark.parametrize("resumes", [True, False])
def test_placement_may_change_while_suspended_and_in_the_request_that_resumes(
    train_job: Any, runtime: Any, parts: Any, resumes: bool
) -> None:
    bare = train_job(suspend=True)
    patched = train_job(suspend=not resumes, runtimePatches=[patch(**parts)])
    assert changes(bare, patched, runtime()) == []
    assert changes(train_job(suspend=True, runtimePatches=[patch(**parts)]), bare, runtime()) == []


def test_nothing_may_be_patched_while_the_job_runs(train_job: Any, runtime: Any) -> None:
    new = train_job(runtimePatches=[patch(nodeSelector={"zone": "a"})])
    assert changes(train_job(), new, runtime()) == [
        "spec.runtimePatches: cannot be changed while the job runs: suspend it first (spec.suspend: true)"
    ]


def test_a_new_time_is_no_change(train_job: Any, runtime: Any) -> None:
    def at(time: str) -> Any:
        return train_job(runtimePatches=[{**patch(serviceAccountName="a"), "time": time}])

    assert changes(at("2026-11-20T10:00:00Z"), at("2026-11-20T11:00:00Z"), runtime()) == []


LASTING = [
    ({"job": {"labels": {"a": "1"}}}, "template.metadata.labels", "node.metadata.labels"),
    ({"serviceAccountName": "a"}, "template.spec.template.spec.serviceAccountName", "node.serviceAccountName"),
    ({"affinity": {"a": {"b": "c"}}}, "template.spec.template.spec.affinity", "node.affinity"),
    ({"terminationGracePeriodSeconds": 5}, "template.spec.template.spec.terminationGracePeriodSeconds", ""),
    (
        {"containers": [{"name": "node", "securityContext": {"runAsUser": 1}}]},
        "template.spec.template.spec.containers[0].securityContext",
        "node.containers.node.securityContext",
    ),
]
HINT = (
    "while the job is suspended, labels and annotations of the JobSet and of pods, nodeSelector, tolerations, "
    "schedulingGates can change, nothing else"
)


@pytest.mark.parametrize(("parts", "path", "key"), LASTING, ids=[path for _, path, _ in LASTING])
@pytest.mark.parametrize("resumes", [True, False])
def test_what_a_job_set_keeps_is_refused_with_its_path(
    train_job: Any, runtime: Any, parts: Any, path: str, key: str, resumes: bool
) -> None:
    bare = train_job(suspend=True, runtimePatches=[patch(nodeSelector={"a": "1"})])
    patched = train_job(suspend=not resumes, runtimePatches=[patch(nodeSelector={"b": "1"}, **parts)])
    at = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
    assert changes(bare, patched, runtime()) == [f"{at}.{path}: cannot be added after the TrainJob was created; {HINT}"]
    if key:
        assert changes(
            patched, train_job(runtimePatches=bare.raw["spec"]["runtimePatches"], suspend=True), runtime()
        ) == [f"spec.runtimePatches[0]: {key} cannot be removed after the TrainJob was created; {HINT}"]
        assert changes(patched, train_job(suspend=True), runtime()) == [
            f"spec.runtimePatches: {key} of 'example.com/me' cannot be removed after the TrainJob was created; {HINT}"
        ]


def test_a_changed_value_and_a_changed_order_are_refused(train_job: Any, runtime: Any) -> None:
    def job(*accounts: str) -> Any:
        patches = [patch(f"example.com/{account}", serviceAccountName=account) for account in accounts]
        return train_job(suspend=True, runtimePatches=patches)

    other = train_job(suspend=True, runtimePatches=[patch("example.com/a", serviceAccountName="b")])
    at = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
    assert changes(job("a"), other, runtime()) == [
        f"{at}.template.spec.template.spec.serviceAccountName: cannot be changed after the TrainJob was created; {HINT}"
    ]
    assert changes(job("a", "b"), job("b", "a"), runtime()) == [
        f"spec.runtimePatches: cannot be put in another order; {HINT}"
    ]
