"""Strategic merge does to our objects what Kubernetes' own does."""

from copy import deepcopy
from typing import Any

import pytest

from trainyard.controller.strategic_merge import CONTAINER, JOB_SET_SPEC, POD_SPEC, merge


def test_maps_merge_by_key_and_scalars_are_replaced() -> None:
    original = {"nodeSelector": {"a": "1", "b": "2"}, "priority": 1, "kept": True}
    assert merge(original, {"nodeSelector": {"b": "3", "c": "4"}, "priority": 2}, POD_SPEC) == {
        "nodeSelector": {"a": "1", "b": "3", "c": "4"},
        "priority": 2,
        "kept": True,
    }


def test_security_context_merges_field_by_field_and_its_lists_are_replaced() -> None:
    original = {"securityContext": {"runAsUser": 1, "supplementalGroups": [1, 2]}}
    patch = {"securityContext": {"fsGroup": 2, "supplementalGroups": [3]}}
    assert merge(original, patch, POD_SPEC) == {
        "securityContext": {"runAsUser": 1, "fsGroup": 2, "supplementalGroups": [3]}
    }


def test_tolerations_are_replaced_as_a_whole() -> None:
    assert merge({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, POD_SPEC) == {
        "tolerations": [{"key": "b"}]
    }


def test_affinity_merges_its_maps_and_replaces_its_terms() -> None:
    def affinity(kind: str, value: Any) -> dict[str, Any]:
        return {"affinity": {"nodeAffinity": {kind: value}}}

    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    original = affinity(required, {"nodeSelectorTerms": [{"matchFields": [1]}]})
    assert merge(original, affinity(preferred, []), POD_SPEC)["affinity"]["nodeAffinity"] == {
        required: {"nodeSelectorTerms": [{"matchFields": [1]}]},
        preferred: [],
    }
    patched = merge(original, affinity(required, {"nodeSelectorTerms": [{"matchFields": [2]}]}), POD_SPEC)
    assert patched == affinity(required, {"nodeSelectorTerms": [{"matchFields": [2]}]})


@pytest.mark.parametrize(
    ("field", "key", "schema"),
    [
        ("containers", "name", POD_SPEC),
        ("initContainers", "name", POD_SPEC),
        ("volumes", "name", POD_SPEC),
        ("imagePullSecrets", "name", POD_SPEC),
        ("schedulingGates", "name", POD_SPEC),
        ("env", "name", CONTAINER),
        ("volumeMounts", "mountPath", CONTAINER),
        ("ports", "containerPort", CONTAINER),
        ("replicatedJobs", "name", JOB_SET_SPEC),
    ],
)
def test_lists_merge_by_their_key(field: str, key: str, schema: Any) -> None:
    original = {field: [{key: "a", "x": 1}, {key: "b", "x": 1}]}
    merged = merge(original, {field: [{key: "b", "x": 2}, {key: "c", "x": 2}]}, schema)
    assert merged[field] == [{key: "a", "x": 1}, {key: "b", "x": 2}, {key: "c", "x": 2}]


@pytest.mark.parametrize(
    ("original", "patch", "expected"),
    [
        # What kubectl patch gives: elements of the patch in its order, others where the original order puts them.
        ("ab", "c", "cab"),
        ("ab", "b", "ab"),
        ("ab", "ba", "ba"),
        ("abc", "ca", "bca"),
        ("abcd", "bx", "abxcd"),
        ("abc", "cx", "abcx"),
    ],
)
def test_order_of_a_merged_list_is_that_of_kubernetes(original: str, patch: str, expected: str) -> None:
    def listed(names: str) -> dict[str, Any]:
        return {"env": [{"name": name} for name in names]}

    assert merge(listed(original), listed(patch), CONTAINER) == listed(expected)


def test_a_volume_is_replaced_so_that_it_never_has_two_sources() -> None:
    merged = merge(
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        POD_SPEC,
    )
    assert merged == {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}


def test_a_variable_is_replaced_so_that_it_never_has_value_and_source() -> None:
    merged = merge({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "valueFrom": {"x": 1}}]}, CONTAINER)
    assert merged == {"env": [{"name": "A", "valueFrom": {"x": 1}}]}


def test_a_mount_keeps_what_the_patch_does_not_say() -> None:
    merged = merge(
        {"volumeMounts": [{"mountPath": "/d", "name": "a", "readOnly": True}]},
        {"volumeMounts": [{"mountPath": "/d", "name": "b"}]},
        CONTAINER,
    )
    assert merged == {"volumeMounts": [{"mountPath": "/d", "name": "b", "readOnly": True}]}


def test_nothing_that_comes_in_is_changed() -> None:
    original = {"containers": [{"name": "a", "env": [{"name": "A", "value": "1"}]}], "nodeSelector": {"x": "1"}}
    patch = {"containers": [{"name": "a", "env": [{"name": "B", "value": "2"}]}], "nodeSelector": {"y": "1"}}
    before = deepcopy((original, patch))
    merge(original, patch, POD_SPEC)
    assert (original, patch) == before
