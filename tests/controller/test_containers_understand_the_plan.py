"""What a plugin writes is what a container reads: the environment and command of every shipped runtime's containers."""

from typing import Any

import pytest

from trainyard.contract import names
from trainyard.contract.environ import EnvironReader
from trainyard.contract.progress import ProgressClient
from trainyard.controller.plan import Features, plan
from trainyard.controller.runtimes import shipped_runtimes
from trainyard.initializers.config import InitializerConfig
from trainyard.trainers.torchtune.resolve import RECIPES, resolve

SHIPPED = tuple(shipped_runtimes())
TORCHTUNE = tuple(name for name in SHIPPED if name.startswith("torchtune"))
SOURCES = {"dataset": {"storageUri": "file:///data"}, "model": {"storageUri": "file:///model"}}


def containers(job: Any, runtime: Any) -> dict[str, dict[str, Any]]:
    features = Features(train_job_status=True, status_server_url="http://127.0.0.1:1")
    found = {}
    for replicated in plan(job, runtime, features=features).job_set["spec"]["replicatedJobs"]:
        for container in replicated["template"]["spec"]["template"]["spec"]["containers"]:
            found[container["name"]] = container
    return found


def environ(container: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "0") for entry in container.get("env", ())}


@pytest.mark.parametrize("name", TORCHTUNE)
def test_initializers_read_what_the_plan_gives_them(name: str, train_job: Any) -> None:
    found = containers(train_job(name, initializer=SOURCES), shipped_runtimes()[name])
    dataset = InitializerConfig.for_dataset(environ(found[names.DATASET_INITIALIZER]))
    model = InitializerConfig.for_model(environ(found[names.MODEL_INITIALIZER]))
    assert (str(dataset.output), str(model.output)) == ("/workspace/dataset", "/workspace/model")


@pytest.mark.parametrize("name", SHIPPED)
def test_torchrun_reads_numbers(name: str, train_job: Any) -> None:
    job = train_job(name, trainer={"numNodes": 2, "numProcPerNode": 3})
    values = environ(containers(job, shipped_runtimes()[name])["node"])
    reader = EnvironReader(values)
    numbers = [reader.integer(each, 0) for each in ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_MASTER_PORT")]
    reader.finish()
    assert numbers == [2, 3, 29500]


@pytest.mark.parametrize("name", TORCHTUNE)
@pytest.mark.parametrize(
    "trainer",
    [
        {},
        {"command": ["tune", "run"], "args": ["epochs=1"]},
        {"command": ["tune", "run"], "args": ["model.lora_attn_modules=[q_proj,v_proj]"], "numNodes": 2},
        {"command": ["tune", "run"], "args": ["dataset.data_dir=/workspace/dataset/."], "numProcPerNode": 1},
    ],
    ids=["the-runtimes-own", "tune-run", "lora-on-two-nodes", "single-device"],
)
def test_our_recipes_understand_the_command(name: str, trainer: dict[str, Any], train_job: Any) -> None:
    node = containers(train_job(name, trainer=trainer), shipped_runtimes()[name])["node"]
    words = [*node["command"], *node.get("args", ())]
    recipe = next(word for word in words if word in RECIPES)
    flag, config, *overrides = words[words.index(recipe) + 1 :]
    assert flag == "--config"
    resolved, _ = resolve(recipe, config, overrides, environ(node))
    assert str(resolved.output_dir) == "/workspace/output"
    assert str(resolved.checkpointer.checkpoint_dir) == "/workspace/model"
    assert str(resolved.dataset.data_dir).startswith("/workspace/dataset")
    assert resolved.method == ("lora" if "lora" in recipe else "full")


@pytest.mark.parametrize("name", SHIPPED)
def test_trainers_know_where_to_report(name: str, train_job: Any) -> None:
    assert ProgressClient(environ(containers(train_job(name), shipped_runtimes()[name])["node"])).enabled
