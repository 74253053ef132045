"""What the unmodified official SDK sends runs here, as it is."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from trainyard.controller.api.load import load_train_job
from trainyard.controller.plan import plan
from trainyard.controller.runtimes import shipped_runtimes
from trainyard.local import run

# The SDK's own use of older pydantic and datetime calls is not ours to mend.
pytestmark = [pytest.mark.trainer, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

_spec = importlib.util.spec_from_file_location("recorder", Path(__file__).with_name("recorder.py"))
assert _spec is not None
assert _spec.loader is not None
_recorder = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_recorder)
record = _recorder.record


def all_reduce() -> None:
    import os

    import torch
    import torch.distributed as distributed

    distributed.init_process_group("gloo")
    value = torch.tensor([float(distributed.get_rank() + 1)])
    distributed.all_reduce(value)
    # One write for the whole of it: ranks share the log.
    said = f"rank={distributed.get_rank()} of {distributed.get_world_size()} sum={value.item()}\n"
    print(said + f"node={os.environ['GROUP_RANK']} local={os.environ['LOCAL_RANK']}\n", end="", flush=True)
    distributed.destroy_process_group()


def function_job() -> dict[str, Any]:
    from kubeflow.trainer import CustomTrainer

    trainer = CustomTrainer(func=all_reduce, num_nodes=2, resources_per_node={"cpu": 2})
    job: dict[str, Any] = record(
        lambda client: client.train(runtime=client.get_runtime("torch-distributed"), trainer=trainer)
    )
    return job


@pytest.mark.parametrize("isolation", ["namespace", "mapped"])
def test_a_function_reduces_over_two_nodes_of_two_processes(tmp_path: Path, isolation: str) -> None:
    job = function_job()
    result = run(job, state_dir=tmp_path, isolation=isolation)
    assert result.exit_code == 0, result.status
    name = job["metadata"]["name"]
    logs = [
        (tmp_path / "default" / name / "logs" / f"{name}-node-0-{node}" / "node.log").read_text() for node in range(2)
    ]
    lines = [line for text in logs for line in text.splitlines() if line.startswith("rank=")]
    assert sorted(lines) == [f"rank={rank} of 4 sum=10.0" for rank in range(4)]
    assert all(text.count(f"node={node} ") == 2 for node, text in enumerate(logs))


def test_a_failing_function_gives_its_own_exit_code(tmp_path: Path) -> None:
    from kubeflow.trainer import CustomTrainer

    def fail() -> None:
        import sys

        sys.exit(66)

    job = record(
        lambda client: client.train(
            runtime=client.get_runtime("torch-distributed"),
            trainer=CustomTrainer(func=fail, num_nodes=1, resources_per_node={"cpu": 2}),
        )
    )
    result = run(job, state_dir=tmp_path)
    assert result.exit_code == 1
    assert "exit code 66" in result.status["message"]
    # 66 is permanent: the runtime's failure policy must not have started it again.
    assert [condition["type"] for condition in result.status["conditions"]] == ["Failed"]


def test_the_builtin_trainer_is_planned_whole() -> None:
    from kubeflow.trainer import BuiltinTrainer, HuggingFaceDatasetInitializer, HuggingFaceModelInitializer, Initializer
    from kubeflow.trainer.types.types import LoraConfig, TorchTuneConfig

    job = record(
        lambda client: client.train(
            runtime=client.get_runtime("torchtune-llama3.2-1b"),
            initializer=Initializer(
                dataset=HuggingFaceDatasetInitializer(storage_uri="hf://org/data"),
                model=HuggingFaceModelInitializer(storage_uri="hf://org/model"),
            ),
            trainer=BuiltinTrainer(config=TorchTuneConfig(epochs=1, batch_size=2, peft_config=LoraConfig())),
        )
    )
    planned = plan(load_train_job(job), shipped_runtimes()["torchtune-llama3.2-1b"])
    jobs = {each["name"]: each for each in planned.job_set["spec"]["replicatedJobs"]}
    (node,) = jobs["node"]["template"]["spec"]["template"]["spec"]["containers"]
    assert node["command"][:2] == ["tune", "run"]
    assert "lora_finetune_distributed" in node["command"]
    assert "checkpointer.checkpoint_dir=/workspace/model" in node["command"]
    assert "batch_size=2" in node["args"]
