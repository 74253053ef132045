"""`--set` changes one field of a document, and says which piece does not fit."""

from typing import Any

import pytest

from trainyard.contract.errors import ConfigError
from trainyard.controller.api.documents import apply_set, read_text
from trainyard.controller.api.load import load_train_job
from trainyard.controller.api.problem import InvalidError


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("a.b=2", {"a": {"b": 2}, "l": [{"n": 1}]}),
        ("a.b='2'", {"a": {"b": "2"}, "l": [{"n": 1}]}),
        ("a.b=[x, {z: 1}]", {"a": {"b": ["x", {"z": 1}]}, "l": [{"n": 1}]}),
        ("a.b=", {"a": {"b": None}, "l": [{"n": 1}]}),
        ("a.b=k=v", {"a": {"b": "k=v"}, "l": [{"n": 1}]}),
        ("l[0].n=5", {"a": None, "l": [{"n": 5}]}),
        ("l[1].n=5", {"a": None, "l": [{"n": 1}, {"n": 5}]}),
        ("x.y[0].z=5", {"a": None, "l": [{"n": 1}], "x": {"y": [{"z": 5}]}}),
        ("a.nvidia\\.com/gpu=1", {"a": {"nvidia.com/gpu": 1}, "l": [{"n": 1}]}),
        ("a['x=y']=1", {"a": {"x=y": 1}, "l": [{"n": 1}]}),
    ],
)
def test_a_field_is_set(assignment: str, expected: dict[str, Any]) -> None:
    data: dict[str, Any] = {"a": None, "l": [{"n": 1}]}
    apply_set(data, assignment)
    assert data == expected


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("a", "expected FIELD=VALUE such as spec.trainer.numNodes=2"),
        ("=1", "expected a field path such as spec.trainer.env[0].name, got nothing"),
        ("a..b=1", "expected a field path such as spec.trainer.env[0].name, got '..b' in 'a..b'"),
        ("l.x=1", "expected l to be a mapping, got a list"),
        ("n[0]=1", "expected n to be a list, got 3"),
        ("n.x.y=1", "expected n to be a mapping, got 3"),
        ("l[3]=1", "l has 1 elements, so [3] cannot be set"),
        ("[0]=1", "expected the document to be a list, got a mapping"),
        ("a=[1", "not valid YAML"),
        ("a=1\n---\n2", "expected one YAML value, got several documents"),
    ],
)
def test_the_piece_that_does_not_fit_is_named(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        apply_set({"l": [1], "n": 3}, assignment)
    assert str(caught.value).startswith(f"--set {assignment!r}: ")
    assert message in str(caught.value)


def test_a_problem_in_what_was_set_names_the_assignment() -> None:
    head = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\n"
    (document,) = read_text(f"{head}spec:\n  runtimeRef: {{name: r}}\n").all
    document.set("spec.trainer={numNodes: two}")
    with pytest.raises(InvalidError) as caught:
        load_train_job(document)
    assert str(caught.value) == (
        "--set spec.trainer={numNodes: two}: spec.trainer.numNodes: expected an integer, got 'two'"
    )
    document.set("spec.trainer.numNodes=2")
    assert load_train_job(document).spec.trainer.num_nodes == 2  # type: ignore[union-attr]
