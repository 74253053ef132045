"""A container's variables, and what it inherits."""

import os
import sys
from typing import Any

import pytest

from trainyard.local.pods.host_environment import ALLOWED, inherited, search_path
from trainyard.local.pods.pod_environment import container_variables

SECRETS = [{"kind": "Secret", "metadata": {"name": "hf"}, "stringData": {"TOKEN": "hunter2", "USER": "me"}}]
CONFIG_MAPS = [{"kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"LEVEL": "3", "USER": "you"}}]


def variables(make_pod: Any, make_context: Any, **container: Any) -> Any:
    pod = make_pod(1, **container)
    context = make_context(pod, secrets=SECRETS, config_maps=CONFIG_MAPS)
    return container_variables(pod.containers()[0], pod, context)


def field(path: str) -> dict[str, Any]:
    return {"fieldRef": {"fieldPath": path}}


def test_later_wins_and_env_beats_env_from(make_pod: Any, make_context: Any) -> None:
    found = variables(
        make_pod,
        make_context,
        envFrom=[
            {"secretRef": {"name": "hf"}},
            {"configMapRef": {"name": "conf"}},
            {"prefix": "P_", "secretRef": {"name": "hf"}},
            {"secretRef": {"name": "absent", "optional": True}},
        ],
        env=[
            {"name": "LEVEL", "value": "4"},
            {"name": "A", "value": "1"},
            {"name": "A", "value": "$(A)2$(LEVEL)$(USER)"},
        ],
    )
    assert found.problems == []
    assert found.values == {
        "TOKEN": "hunter2",
        "USER": "you",
        "LEVEL": "4",
        "P_TOKEN": "hunter2",
        "P_USER": "me",
        "A": "124you",
    }
    assert found.from_secrets == {"TOKEN", "P_TOKEN", "P_USER"}


def test_keys_of_secrets_and_config_maps(make_pod: Any, make_context: Any) -> None:
    found = variables(
        make_pod,
        make_context,
        env=[
            {"name": "T", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "TOKEN"}}},
            {"name": "AUTH", "value": "Bearer $(T)"},
            {"name": "L", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "LEVEL"}}},
            {"name": "NO", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "NO", "optional": True}}},
            {"name": "NOR", "valueFrom": {"secretKeyRef": {"name": "no", "key": "NO", "optional": True}}},
            {"name": "EMPTY", "value": ""},
        ],
    )
    assert found.problems == []
    assert found.values == {"T": "hunter2", "AUTH": "Bearer hunter2", "L": "3", "EMPTY": ""}
    assert found.from_secrets == {"T", "AUTH"}


def test_downward_fields(make_pod: Any, make_context: Any) -> None:
    wanted = {
        "metadata.name": "job-node-0-1",
        "metadata.namespace": "default",
        "metadata.uid": "7e1f",
        "metadata.labels['team']": "blue",
        "metadata.labels['absent']": "",
        "metadata.annotations['batch.kubernetes.io/job-completion-index']": "1",
        "spec.serviceAccountName": "default",
        "status.hostIP": "127.0.0.1",
    }
    entries = [{"name": f"V{index}", "valueFrom": field(path)} for index, path in enumerate(wanted)]
    found = variables(make_pod, make_context, env=[*entries, {"name": "IP", "valueFrom": field("status.podIP")}])
    assert found.problems == []
    assert [found.values[entry["name"]] for entry in entries] == list(wanted.values())
    assert found.values["IP"].startswith("127.")


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.cpu", None, "3"),
        ("limits.cpu", "1m", "2500"),
        ("requests.cpu", "0", "1"),
        ("limits.memory", "1Mi", "1537"),
        ("limits.memory", None, str(1536 * 2**20 + 1)),
        ("requests.memory", "1Mi", "1537"),
        ("requests.ephemeral-storage", None, "0"),
    ],
)
def test_resource_fields_round_up(
    make_pod: Any, make_context: Any, resource: str, divisor: str | None, expected: str
) -> None:
    reference = {"resource": resource, **({"divisor": divisor} if divisor else {})}
    found = variables(
        make_pod,
        make_context,
        env=[{"name": "R", "valueFrom": {"resourceFieldRef": reference}}],
        resources={"limits": {"cpu": "2500m", "memory": str(1536 * 2**20 + 1)}, "requests": {"cpu": 0.5}},
    )
    assert found.problems == []
    assert found.values == {"R": expected}


def test_a_limit_that_is_not_set_is_the_machines(make_pod: Any, make_context: Any) -> None:
    found = variables(
        make_pod, make_context, env=[{"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]
    )
    assert found.values == {"R": str(os.cpu_count())}


def test_every_problem_names_pod_container_variable_and_the_way_out(make_pod: Any, make_context: Any) -> None:
    found = variables(
        make_pod,
        make_context,
        envFrom=[{"secretRef": {"name": "aws"}}],
        env=[
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "K"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "K"}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "K"}}},
            {"name": "D", "valueFrom": field("status.phase")},
            {"name": "E", "value": 3},
            {"name": "F", "valueFrom": {"resourceFieldRef": {"resource": "cpu"}}},
            {"name": "G", "valueFrom": {"fileKeyRef": {}}},
        ],
    )
    place = "pod job-node-0-1, container 'node': "
    assert all(problem.startswith(place) for problem in found.problems)
    shown = [problem.removeprefix(place) for problem in found.problems]
    assert shown[0].startswith("envFrom: Secret 'aws' is not there (there are hf); add its YAML to the input, or pass ")
    assert shown[0].endswith("--secret aws=DIR or aws=FILE")
    assert shown[1].startswith("env A: Secret 's3' is not there (there are hf); add its YAML to the input, or pass")
    assert shown[2] == "env B: Secret 'hf' has no key 'K'; it has TOKEN, USER"
    assert shown[3] == "env C: ConfigMap 'no' is not there (there are conf); add its YAML to the input"
    assert shown[4].startswith("env D: no field 'status.phase'; expected one of metadata.name, metadata.namespace, ")
    assert shown[5] == "env E: expected a string, got 3; quote it"
    assert shown[6] == "env F: resourceFieldRef.resource: expected limits.NAME or requests.NAME, got 'cpu'"
    assert shown[7].startswith("env G: valueFrom: expected secretKeyRef, configMapKeyRef, fieldRef or resourceFieldRef")


def test_only_the_allow_list_is_inherited() -> None:
    taken = inherited({"HOME": "/h", "AWS_SECRET_ACCESS_KEY": "x", "HF_TOKEN": "x", "PYTHONPATH": "x", "LANG": "C"})
    assert taken == {"HOME": "/h", "LANG": "C", "PYTHONUNBUFFERED": "1"}
    assert all(reason for reason in ALLOWED.values())


def test_a_proxy_spares_this_machine_and_the_peers() -> None:
    taken = inherited({"HTTPS_PROXY": "http://proxy:1", "no_proxy": "internal"}, [".job"])
    assert taken["NO_PROXY"] == taken["no_proxy"] == "internal,127.0.0.1,localhost,.job"
    assert "NO_PROXY" not in inherited({"NO_PROXY_": "x"})


def test_shims_and_this_environment_come_first_on_path(tmp_path: Any) -> None:
    assert search_path(tmp_path, "/usr/bin") == f"{tmp_path}:{os.path.dirname(sys.executable)}:/usr/bin"  # noqa: PTH120
