"""GPU requests become partitions, or one CPU process per node."""

import os
from pathlib import Path
from typing import Any

import pytest

from trainyard.contract.errors import ConfigError
from trainyard.local.pods.devices import detect_gpus, parse_mode, plan_devices

TWO_GPUS = {"limits": {"nvidia.com/gpu": "2"}}
CPU_ONLY = {"limits": {"cpu": "2"}}


def chosen(plan: Any, pod: Any, **variables: str) -> dict[str, str]:
    found = plan.environment(pod, pod.containers()[0], variables)
    return {name: value for name, value in found.items() if name != "OMP_NUM_THREADS"}


def test_gpus_are_dealt_out_without_overlap(make_pod: Any) -> None:
    pods = [make_pod(index, resources=TWO_GPUS) for index in range(2)]
    plan = plan_devices(pods, "auto", lambda: ("0", "1", "2", "3"))
    assert chosen(plan, pods[0], PET_NPROC_PER_NODE="auto") == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "PET_NPROC_PER_NODE": "2",
    }
    assert chosen(plan, pods[1], PET_NPROC_PER_NODE="1") == {"CUDA_VISIBLE_DEVICES": "2,3"}
    assert plan.message is None


@pytest.mark.parametrize(("mode", "gpus"), [("auto", ()), ("auto", ("0",)), ("cpu", ("0", "1", "2", "3"))])
@pytest.mark.parametrize("processes", ["auto", "2"])
def test_without_enough_gpus_there_is_one_cpu_process_per_node(
    make_pod: Any, mode: Any, gpus: tuple[str, ...], processes: str
) -> None:
    pods = [make_pod(index, resources=TWO_GPUS) for index in range(2)]
    plan = plan_devices(pods, mode, lambda: gpus)
    assert plan.kind == "cpu"
    assert chosen(plan, pods[1], PET_NPROC_PER_NODE=processes) == {
        "CUDA_VISIBLE_DEVICES": "",
        "PET_NPROC_PER_NODE": "1",
    }
    assert plan.message is not None
    assert plan.message.startswith("the job asks for 4 x nvidia.com/gpu; ")
    assert plan.message.endswith(": one CPU process per node")


def test_a_process_count_without_accelerators_stays(make_pod: Any) -> None:
    pod = make_pod(resources=CPU_ONLY)
    plan = plan_devices([pod], "auto", lambda: pytest.fail("nobody asks for a GPU, so nobody has to look for one"))
    assert chosen(plan, pod, PET_NPROC_PER_NODE="3") == {"CUDA_VISIBLE_DEVICES": ""}
    assert plan.message is None


def test_a_container_that_asks_for_none_sees_none(make_pod: Any) -> None:
    pods = [make_pod(0, resources=TWO_GPUS), make_pod(1)]
    plan = plan_devices(pods, "cuda", lambda: ("0", "1"))
    assert chosen(plan, pods[1]) == {"CUDA_VISIBLE_DEVICES": ""}


def test_cuda_refuses_what_is_not_there(make_pod: Any) -> None:
    pods = [make_pod(index, resources=TWO_GPUS) for index in range(2)]
    with pytest.raises(ConfigError, match="the job asks for 4 GPUs, this machine has 1 GPU;"):
        plan_devices(pods, "cuda", lambda: ("0",))
    with pytest.raises(ConfigError, match="no container of the job asks for a GPU"):
        plan_devices([make_pod(0)], "cuda", lambda: ("0",))


def test_other_accelerators_are_named_and_fall_back(make_pod: Any) -> None:
    pod = make_pod(resources={"limits": {"google.com/tpu": 4}, "claims": [{"name": "x"}]})
    plan = plan_devices([pod], "auto", lambda: ("0",))
    assert chosen(plan, pod, PET_NPROC_PER_NODE="auto")["PET_NPROC_PER_NODE"] == "1"
    assert (
        plan.message
        == "the job asks for 1 x claims, 4 x google.com/tpu; this machine has none: one CPU process per node"
    )


def test_nodes_share_the_cpus(make_pod: Any) -> None:
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    pods = [make_pod(index) for index in range(2)]
    plan = plan_devices(pods, "cpu", tuple)
    threads = plan.environment(pods[0], pods[0].containers()[0], {"PET_NPROC_PER_NODE": "1"})["OMP_NUM_THREADS"]
    assert int(threads) == max(1, cpus // 2)
    alone = plan_devices(pods[:1], "cpu", tuple)
    assert "OMP_NUM_THREADS" not in alone.environment(pods[0], pods[0].containers()[0], {})


def test_gpus_are_found_by_the_driver_program(tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        "#!/bin/sh\necho 'GPU 0: NVIDIA H100 (UUID: GPU-a)'\necho '  MIG 1g.10gb (UUID: MIG-b)'\n"
        "echo 'GPU 1: NVIDIA H100 (UUID: GPU-c)'\n"
    )
    smi.chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    assert detect_gpus({"PATH": path}) == ("0", "1")
    assert detect_gpus({"PATH": path, "CUDA_VISIBLE_DEVICES": "1"}) == ("1",)
    assert detect_gpus({"PATH": path, "CUDA_VISIBLE_DEVICES": ""}) == ()


def test_the_option_takes_three_words() -> None:
    assert [parse_mode(word) for word in ("auto", "cpu", "cuda")] == ["auto", "cpu", "cuda"]
    with pytest.raises(ConfigError, match="--devices: expected auto, cpu or cuda, got 'tpu'"):
        parse_mode("tpu")
