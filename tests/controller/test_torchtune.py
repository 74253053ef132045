"""TorchTune: `tune run` becomes a whole command."""

from typing import Any

import pytest

from trainyard.contract import names

LORA = "model.lora_attn_modules=[q_proj,v_proj]"
QUANTIZED = "model.quantize_base=True"
DORA = "model.use_dora=True"
AUTO = {"annotations": {"trainyard/model": "auto"}}
FIXED = ["output_dir=/o", "tokenizer.path=/m/t", "tokenizer.merges_file=/m/g", "checkpointer.checkpoint_dir=/m"]
RUNTIME_COMMAND = ["tune", "run", "full_finetune_distributed", "--config", "x", "dataset.data_dir=/d", *FIXED, "a=b"]


@pytest.fixture
def tuning(runtime: Any, replicated_job: Any) -> Any:
    """Make a torchtune runtime."""

    def make(
        name: str = "torchtune-llama3.2-1b", *, nodes: int = 1, resources: Any = None, metadata: Any = None, **more: Any
    ) -> Any:
        container = {"command": RUNTIME_COMMAND, "resources": resources or {}, **more}
        trainer = replicated_job("node", names.TRAINER, container=container)
        return runtime(trainer, name=name, policy={"numNodes": nodes, "torch": {}}, metadata=metadata or {})

    return make


def tune(**trainer: Any) -> dict[str, Any]:
    return {"command": ["tune", "run"], **trainer}


def gpus(count: int) -> dict[str, Any]:
    return {"limits": {"nvidia.com/gpu": str(count)}}


RENDEZVOUS = "--rdzv_endpoint=demo-node-0-0.demo:29500"


@pytest.mark.parametrize(
    ("resources", "processes", "args", "recipe", "config", "rendezvous"),
    [
        (gpus(1), None, [], "full_finetune_single_device", "full_single_device", False),
        (gpus(1), None, [LORA], "lora_finetune_single_device", "lora_single_device", False),
        (gpus(1), None, [LORA, QUANTIZED], "lora_finetune_single_device", "qlora_single_device", False),
        (gpus(1), None, [LORA, QUANTIZED, DORA], "lora_finetune_single_device", "lora_single_device", False),
        (gpus(1), None, [DORA], "full_finetune_single_device", "full_single_device", False),
        (gpus(2), 1, [LORA], "lora_finetune_single_device", "lora_single_device", False),
        ({}, None, [], "full_finetune_single_device", "full_single_device", False),
        ({"limits": {"cpu": "4"}}, None, [LORA], "lora_finetune_distributed", "lora", True),
        (gpus(2), None, [], "full_finetune_distributed", "full", True),
        (gpus(2), None, [LORA], "lora_finetune_distributed", "lora", True),
        (gpus(2), None, [LORA, DORA], "lora_finetune_distributed", "lora", True),
        (gpus(2), 2, [LORA], "lora_finetune_distributed", "lora", True),
        ({"claims": [{"name": "g"}]}, None, [LORA], "lora_finetune_distributed", "lora", True),
    ],
)
def test_recipe_and_config_follow_nodes_processes_and_devices(
    train_job: Any,
    tuning: Any,
    node: Any,
    resources: Any,
    processes: int | None,
    args: list[str],
    recipe: str,
    config: str,
    rendezvous: bool,
) -> None:
    trainer = tune(args=args, resourcesPerNode=resources, **({"numProcPerNode": processes} if processes else {}))
    found = node(train_job(trainer=trainer), tuning())
    start = ["tune", "run", *([RENDEZVOUS] if rendezvous else []), recipe, "--config"]
    assert found["command"] == [*start, f"llama3_2/1B_{config}", *FIXED]
    assert found.get("args", []) == args
    automatic = node(train_job(trainer=trainer), tuning(metadata=AUTO))
    assert automatic["command"] == [*start, "auto", *FIXED]


def test_distributed_qlora_has_a_config_of_its_own(train_job: Any, tuning: Any, node: Any) -> None:
    job = train_job(trainer=tune(args=[LORA, QUANTIZED]))
    found = node(job, tuning("torchtune-llama3.3-70b", resources=gpus(8)))
    assert found["command"][3:6] == ["lora_finetune_distributed", "--config", "llama3_3/70B_qlora"]


def test_several_nodes_of_the_large_model_are_fully_fine_tuned(train_job: Any, tuning: Any, node: Any) -> None:
    found = node(train_job(trainer=tune(numNodes=2)), tuning("torchtune-llama3.3-70b", resources=gpus(8)))
    assert found["command"][2:6] == [RENDEZVOUS, "full_finetune_distributed", "--config", "llama3_3/70B_full_multinode"]


@pytest.mark.parametrize("args", [[LORA], [LORA, QUANTIZED]], ids=["lora", "qlora"])
def test_any_model_takes_adapters_on_several_nodes(train_job: Any, tuning: Any, node: Any, args: list[str]) -> None:
    found = node(train_job(trainer=tune(args=args, numNodes=2)), tuning("my-models", metadata=AUTO))
    assert found["command"][2:6] == [RENDEZVOUS, "lora_finetune_distributed", "--config", "auto"]


def test_the_model_may_stand_in_a_label_too(train_job: Any, tuning: Any, node: Any) -> None:
    found = node(train_job(trainer=tune()), tuning("x", metadata={"labels": {"trainyard/model": "auto"}}))
    assert found["command"][2:5] == ["full_finetune_single_device", "--config", "auto"]


def test_a_model_named_by_annotation_beats_the_runtimes_name(train_job: Any, tuning: Any, node: Any) -> None:
    named = tuning(metadata={"annotations": {"trainyard/model": "qwen2_5/7B"}}, resources=gpus(2))
    found = node(train_job(trainer=tune(args=[LORA, QUANTIZED])), named)
    assert found["command"][3:6] == ["lora_finetune_distributed", "--config", "qwen2_5/7B_qlora"]


def test_numbers_are_the_merged_ones(train_job: Any, tuning: Any, node: Any) -> None:
    job = train_job(trainer=tune(args=[LORA], resourcesPerNode={"limits": {"memory": "1Gi"}}))
    found = node(job, tuning("any", nodes=2, resources=gpus(2), metadata=AUTO))
    assert found["command"][2:4] == [RENDEZVOUS, "lora_finetune_distributed"]


@pytest.mark.parametrize("command", [["tune"], ["tune", "run", "x"], ["bash", "-c", "tune run"], None])
def test_other_commands_stay_as_they_are(train_job: Any, tuning: Any, node: Any, env_of: Any, command: Any) -> None:
    found = node(train_job(trainer={"command": command} if command else {}), tuning("anything"))
    assert found["command"] == (command or RUNTIME_COMMAND)
    assert "PET_MASTER_ADDR" in env_of(found)


def test_a_runtime_without_torch_leaves_tune_run_alone(train_job: Any, runtime: Any, node: Any, env_of: Any) -> None:
    found = node(train_job(trainer=tune()), runtime())
    assert found["command"] == ["tune", "run"] and env_of(found) == {}


ONE_OF = "expected one of llama3_2/1B, llama3_2/3B, llama3_3/70B, qwen2_5/1.5B, or a runtime annotated trainyard/model"


@pytest.mark.parametrize(
    ("name", "nodes", "resources", "trainer", "refused"),
    [
        (
            "torchtune-gemma2-2b",
            1,
            None,
            {},
            [f"spec.runtimeRef.name: must have a supported pretrained model, got 'gemma2/2B'; {ONE_OF}"],
        ),
        ("tune", 1, None, {}, [f"spec.runtimeRef.name: must have a supported pretrained model, got 'tune'; {ONE_OF}"]),
        (
            "torchtune-llama3.2-1b",
            1,
            None,
            {"numNodes": 2},
            ["spec.trainer.numNodes: must be 1 for the llama3_2/1B model, got 2"],
        ),
        (
            "torchtune-qwen2.5-1.5b",
            3,
            None,
            {},
            ["spec.trainer.numNodes: must be 1 for the qwen2_5/1.5B model, got 3"],
        ),
        (
            "torchtune-llama3.3-70b",
            2,
            None,
            {"args": [LORA]},
            ["spec.trainer.numNodes: LoRA is not supported multi-node, got 2 nodes"],
        ),
        (
            "torchtune-qwen2.5-1.5b",
            1,
            gpus(1),
            {"args": [LORA, QUANTIZED]},
            ["spec.trainer.args: QLoRA is not supported for the qwen2_5/1.5B model, which spec.runtimeRef.name says"],
        ),
        (
            "torchtune-llama3.2-1b",
            1,
            gpus(2),
            {"args": [LORA, QUANTIZED]},
            [
                (
                    "spec.trainer.resourcesPerNode: must have 1 GPU for QLoRA of the llama3_2/1B model, got 2; "
                    "spec.trainer.numProcPerNode: 1 would use one of them"
                ),
            ],
        ),
        (
            "torchtune-llama3.2-3b",
            1,
            gpus(4),
            {"args": [LORA, QUANTIZED], "numProcPerNode": 2},
            [
                (
                    "spec.trainer.numProcPerNode: must be 1, or auto with 1 GPU in spec.trainer.resourcesPerNode, "
                    "for QLoRA of the llama3_2/3B model, got 2"
                ),
            ],
        ),
        ("torchtune-llama3.2-1b", 1, {"limits": {"cpu": "1"}}, {"args": [LORA, QUANTIZED]}, []),
        ("torchtune-llama3.2-1b", 1, gpus(1), {"args": [LORA, QUANTIZED]}, []),
    ],
)
def test_limits_of_models_that_are_known_by_name(
    train_job: Any,
    tuning: Any,
    refusals: Any,
    name: str,
    nodes: int,
    resources: Any,
    trainer: dict[str, Any],
    refused: list[str],
) -> None:
    job = train_job(name, trainer=tune(**trainer))
    assert refusals(job, tuning(name, nodes=nodes, resources=resources)) == refused
    assert refusals(job, tuning(name, nodes=nodes, resources=resources, metadata=AUTO)) == []


@pytest.mark.parametrize(
    "key", ["output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir"]
)
@pytest.mark.parametrize("metadata", [{}, AUTO], ids=["by-name", "auto"])
def test_settings_of_the_runtime_are_refused(
    train_job: Any, tuning: Any, refusals: Any, key: str, metadata: Any
) -> None:
    job = train_job("torchtune-llama3.2-1b", trainer=tune(args=["epochs=1", f"{key}=/x"]))
    assert refusals(job, tuning(metadata=metadata)) == [
        f"spec.trainer.args[1]: {key!r} is managed by the runtime and must not be set, got '{key}=/x'"
    ]
