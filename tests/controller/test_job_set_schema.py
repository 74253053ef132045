"""What we render is what JobSet accepts: its CRD's schema, with unknown fields refused as a strict client would."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from trainyard.controller.plan import Features, plan
from trainyard.controller.runtimes import shipped_runtimes


def violations(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Find fields that the schema does not know, and elements of a list that share their key."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for key, inner in value.items():
            below = properties.get(key, schema.get("additionalProperties"))
            if below is None and path in ("", ".metadata"):
                continue
            if below is None:
                yield f"{path}.{key}: unknown"
            else:
                yield from violations(inner, below, f"{path}.{key}")
    elif isinstance(value, list):
        keys = schema.get("x-kubernetes-list-map-keys")
        if keys:
            items = schema["items"]["properties"]
            found = [tuple(element.get(key, items[key].get("default")) for key in keys) for element in value]
            if len(set(found)) != len(found):
                yield f"{path}: two elements of one key in {found}"
        for index, inner in enumerate(value):
            yield from violations(inner, schema["items"], f"{path}[{index}]")


def check(job_set: dict[str, Any], schema: dict[str, Any]) -> None:
    errors = [
        f"{error.json_path}: {error.message}" for error in jsonschema.Draft7Validator(schema).iter_errors(job_set)
    ]
    assert [*errors, *violations(job_set, schema)] == []


@pytest.mark.parametrize("name", shipped_runtimes())
@pytest.mark.parametrize("status", [False, True], ids=["plain", "with-status"])
def test_every_shipped_runtime_renders_to_a_job_set_that_the_crd_accepts(
    name: str, status: bool, train_job: Any, job_set_schema: dict[str, Any]
) -> None:
    initializer = (
        {"dataset": {"storageUri": "file:///data", "secretRef": {"name": "s"}, "env": [{"name": "A", "value": "b"}]}}
        if name != "torch-distributed"
        else None
    )
    job = train_job(
        name,
        metadata={"uid": "1234"},
        trainer={
            "numNodes": 3,
            "command": ["torchrun", "x.py"] if name == "torch-distributed" else ["tune", "run"],
            "args": ["epochs=1"],
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resourcesPerNode": {"limits": {"nvidia.com/gpu": 2.0, "cpu": 4}},
        },
        initializer=initializer,
    )
    features = Features(train_job_status=status, status_server_url="https://status:10443", status_server_ca="PEM")
    check(plan(job, shipped_runtimes()[name], features=features).job_set, job_set_schema)


def test_the_check_itself_finds_wrong_types_unknown_fields_and_doubles(job_set_schema: dict[str, Any]) -> None:
    container = {"name": "node", "ports": [{"containerPort": 1}, {"containerPort": 1}], "imagee": "x"}
    job_set = {
        "spec": {
            "replicatedJobs": [
                {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [container]}}}}}
            ]
        }
    }
    found = list(violations(job_set, job_set_schema))
    assert len(found) == 2 and "imagee: unknown" in found[1] and "two elements of one key" in found[0]
    with pytest.raises(AssertionError, match="'2' is not of type 'integer'"):
        check({"spec": {"replicatedJobs": [{"name": "node", "replicas": "2", "template": {}}]}}, job_set_schema)
