"""Every mistake is said with line and path.

The cases are in `cases/`: a piece of YAML, and below it how its problem begins.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

Refusals = Callable[[str], list[str]]

CASES = Path(__file__).with_name("cases")
TRAIN_JOB = (
    "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: j}\nspec:\n  runtimeRef: {name: r}\n"
)
PATCH = f"{TRAIN_JOB}  runtimePatches:\n  - manager: a/b\n"
RUNTIME = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: {name: r}\nspec:"
POD = "template: {spec: {template: {spec: {containers: [{name: node}]}}}}"
JOBS = "spec.template.spec.replicatedJobs"
TWO_JOBS = f"{{name: node, {POD}}}, {{name: b, dependsOn: [{{name: node, status: Ready}}], {POD}}}"

TEMPLATES = {
    # Case file: the document around a case, the line where the case stands, the path before the expected one.
    "train_job_spec": (f"{TRAIN_JOB}  CASE\n", 6, ""),
    "metadata": (TRAIN_JOB.replace("{name: j}", "CASE"), 3, ""),
    "patch": (
        f"{PATCH}    trainingRuntimeSpec: {{template: {{spec: {{replicatedJobs: [CASE]}}}}}}\n",
        8,
        "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs",
    ),
    "runtime_spec": (f"{RUNTIME} CASE\n", 4, ""),
    "replicated_jobs": (f"{RUNTIME}\n  template:\n    spec:\n      replicatedJobs: [CASE]\n", 7, JOBS),
    "job_set": (
        f"{RUNTIME}\n  template:\n    spec: {{CASE, replicatedJobs: [{TWO_JOBS}]}}\n",
        6,
        "spec.template.spec.",
    ),
    "pod": (
        f"{RUNTIME}\n  template:\n    spec:\n      replicatedJobs: [{{name: node, {POD}}}]\n".replace(
            "containers: [{name: node}]", "CASE"
        ),
        7,
        f"{JOBS}[0].template.spec.template.spec",
    ),
}


def cases() -> Iterator[ParameterSet]:
    for name in TEMPLATES:
        for case in CASES.joinpath(f"{name}.txt").read_text(encoding="utf-8").split("\n\n"):
            text, _, problem = case.partition("\n  ")
            yield pytest.param(name, text.replace("POD", POD), problem.strip(), id=f"{name}: {text[:70]}")


@pytest.mark.parametrize(("name", "text", "problem"), list(cases()))
def test_a_mistake_is_said_with_its_place(name: str, text: str, problem: str, refusals: Refusals) -> None:
    template, line, path = TEMPLATES[name]
    found = refusals(template.replace("CASE", text))
    assert any(refusal.startswith(f"job.yaml:{line}: {path}{problem}") for refusal in found), found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"trainer: {{args: ['{'a' * 1048577}']}}", "spec.trainer.args[0]: expected at most 1048576 characters"),
        (
            "initializer: {model: {storageUri: 'hf://%s'}}" % ("a" * 2048),
            "spec.initializer.model.storageUri: expected at",
        ),
    ],
    ids=["argument", "storageUri"],
)
def test_what_is_too_long_is_refused_without_being_shown(text: str, problem: str, refusals: Refusals) -> None:
    (found,) = refusals(f"{TRAIN_JOB}  {text}\n")
    assert found.startswith(f"job.yaml:6: {problem}")
    assert len(found) < 200


def test_annotations_are_bounded_together(refusals: Refusals) -> None:
    metadata = f"{{name: j, annotations: {{a: '{'x' * 200_000}', b: '{'x' * 100_000}'}}}}"
    (found,) = refusals(TRAIN_JOB.replace("{name: j}", metadata))
    assert found == "job.yaml:3: metadata.annotations: expected annotations of at most 262144 bytes in all, got 300000"


def test_all_problems_are_said_at_once_in_the_order_of_the_file(refusals: Refusals) -> None:
    trainer = "  trainer:\n    numNodes: x\n    command: py\n"
    assert refusals(f"kind: TrainJob\napiVersion: v1\nspec:\n{trainer}  initialiser: 1\nbar: 2\n") == [
        "job.yaml:1: metadata: required, not set",
        "job.yaml:2: apiVersion: expected 'trainer.kubeflow.org/v1alpha1', got 'v1'",
        "job.yaml:3: spec.runtimeRef: required, not set",
        "job.yaml:5: spec.trainer.numNodes: expected an integer, got 'x'",
        "job.yaml:6: spec.trainer.command: expected a list such as ['py'], got 'py'",
        "job.yaml:7: spec.initialiser: unknown field; did you mean 'initializer'?",
        "job.yaml:8: bar: unknown field; expected one of apiVersion, metadata, kind, spec, status",
    ]
