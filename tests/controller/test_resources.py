"""Merged resources, and what they say about devices and processes."""

from typing import Any

import pytest

from trainyard.controller.resources import devices_of, merge_resources, processes_per_node, with_text_quantities


def test_resources_merge_by_key_and_claims_by_name() -> None:
    runtime = {"limits": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": "a"}, {"name": "b"}]}
    job = {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}, "claims": [{"name": "b", "request": "x"}, {"name": "c"}]}
    assert merge_resources(runtime, job) == {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "1"},
        "claims": [{"name": "a"}, {"name": "b", "request": "x"}, {"name": "c"}],
    }


def test_quantities_become_the_text_that_kubernetes_writes() -> None:
    resources = {
        "limits": {"nvidia.com/gpu": 2.0, "cpu": 1.5, "memory": "1Gi", "ephemeral-storage": "2048Mi"},
        "requests": {"cpu": "1000m", "memory": "0.5Gi", "ephemeral-storage": "0.1"},
    }
    assert with_text_quantities(resources) == {
        "limits": {"nvidia.com/gpu": "2", "cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "2Gi"},
        "requests": {"cpu": "1", "memory": "512Mi", "ephemeral-storage": "100m"},
    }


ACCELERATED = [
    "nvidia.com/gpu",
    "nvidia.com/mig-1g.5gb",
    "amd.com/gpu",
    "google.com/tpu",
    "habana.ai/gaudi",
    "huawei.com/Ascend910",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
]


@pytest.mark.parametrize("name", ACCELERATED)
@pytest.mark.parametrize("field", ["limits", "requests"])
def test_accelerators_leave_the_number_of_processes_to_torchrun(name: str, field: str) -> None:
    assert processes_per_node(None, {field: {name: "2", "cpu": "64"}}) == "auto"


@pytest.mark.parametrize(
    ("resources", "processes"),
    [
        ({}, "1"),
        ({"requests": {"cpu": "500m"}}, "1"),
        ({"requests": {"cpu": "2500m"}}, "3"),
        ({"requests": {"cpu": "0"}, "limits": {"cpu": "4"}}, "4"),
        ({"limits": {"cpu": 4}}, "4"),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}, "2"),
        ({"limits": {"nvidia.com/gpu": "0", "cpu": "3"}}, "3"),
        ({"limits": {"memory": "1Gi"}}, "1"),
        ({"limits": {"example.com/gpu-memory": "8", "cpu": "2"}}, "2"),
        ({"claims": [{"name": "gpus"}], "limits": {"cpu": "2"}}, "auto"),
    ],
    ids=str,
)
def test_without_accelerators_there_is_a_process_for_each_cpu(resources: dict[str, Any], processes: str) -> None:
    assert processes_per_node(None, resources) == processes


def test_a_number_that_was_asked_for_counts() -> None:
    assert processes_per_node(3, {"limits": {"nvidia.com/gpu": "8"}}) == "3"


def test_the_number_of_devices_in_a_claim_is_unknown() -> None:
    devices = devices_of({"claims": [{"name": "gpus"}]})
    assert devices.any_accelerator and devices.maybe_several and not devices.exactly_one


def test_limits_and_requests_of_one_device_are_the_same_device() -> None:
    gpu = {"nvidia.com/gpu": "1"}
    assert devices_of({"limits": gpu, "requests": gpu}).accelerators == 1
