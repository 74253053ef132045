"""Which `tune` command lines are ours, and when torchrun starts the processes."""

import pytest

from trainyard.contract.errors import UsageError
from trainyard.trainers.torchtune.command_line import Tune, parse

RECIPE = "lora_finetune_distributed"


def parsed(*words: str, **environ: str) -> Tune:
    command = parse(words, environ)
    assert command is not None
    return command


@pytest.mark.parametrize("config", [["--config", "auto"], ["--config=auto"]])
def test_recipe_config_and_overrides_are_told_apart(config: list[str]) -> None:
    command = parsed("run", RECIPE, "epochs=1", *config, "batch_size=2")
    assert command == Tune(recipe=RECIPE, config="auto", overrides=("epochs=1", "batch_size=2"), launch=None)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("ls",),
        ("cp", "llama3_2/1B_full", "x.yaml"),
        ("validate", "x.yaml"),
        ("run", "--help"),
        ("run", "full_dpo_distributed", "--config", "llama3_1/8B_full_dpo"),
    ],
)
def test_other_commands_and_recipes_belong_to_torchtune(words: tuple[str, ...]) -> None:
    assert parse(words, {}) is None


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("run", RECIPE, "epochs=1"), "--config is required"),
        (("run", RECIPE, "--config"), "--config is required"),
        (("run", RECIPE, "--config", "auto", "--verbose"), "unknown option '--verbose'"),
    ],
)
def test_a_wrong_command_line_is_refused(words: tuple[str, ...], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        parse(words, {})


@pytest.mark.parametrize("environ", [{}, {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": "0"}])
def test_one_process_of_one_node_needs_no_torchrun(environ: dict[str, str]) -> None:
    assert parsed("run", RECIPE, "--config", "auto", **environ).launch is None


def test_a_process_that_torchrun_started_does_not_start_it_again() -> None:
    command = parsed("run", RECIPE, "--config", "auto", TORCHELASTIC_RUN_ID="x", PET_NPROC_PER_NODE="2")
    assert command.launch is None


@pytest.mark.trainer
@pytest.mark.parametrize(
    ("options", "environ"),
    [
        (("--nproc_per_node", "2"), {}),
        (("--nproc-per-node=2",), {}),
        ((), {"PET_NPROC_PER_NODE": "2"}),
        (("--rdzv_endpoint=a.b:29500",), {"PET_NPROC_PER_NODE": "2", "PET_NNODES": "1"}),
    ],
)
def test_several_processes_of_one_node_meet_at_a_port_of_their_own(
    options: tuple[str, ...], environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():  # torchrun's parser reads the environment of the process.
        monkeypatch.setenv(name, value)
    launch = parsed("run", *options, RECIPE, "--config", "auto", "epochs=1", **environ).launch
    assert launch is not None
    assert launch.nproc_per_node == "2"
    assert launch.standalone
    assert launch.module
    assert launch.training_script == "trainyard.entrypoints.tune"
    assert launch.training_script_args == ["run", RECIPE, "--config", "auto", "epochs=1"]


@pytest.mark.trainer
def test_several_nodes_meet_where_they_were_told() -> None:
    launch = parsed(
        "run", "--nnodes=2", "--node_rank=1", "--rdzv_endpoint=job-node-0-0.job:29500", RECIPE, "--config", "auto"
    ).launch
    assert launch is not None
    assert not launch.standalone
    assert launch.rdzv_endpoint == "job-node-0-0.job:29500"


@pytest.mark.trainer
@pytest.mark.parametrize("asked", ["1", "auto", "gpu"])
def test_one_process_by_option_needs_no_torchrun(asked: str) -> None:
    import torch

    if asked != "1" and torch.cuda.device_count() > 1:
        asked = "1"
    assert parsed("run", f"--nproc_per_node={asked}", RECIPE, "--config", "auto").launch is None


@pytest.mark.trainer
def test_a_number_of_processes_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="nproc_per_node: expected a number"):
        parse(["run", "--nproc_per_node=two", RECIPE, "--config", "auto"], {})
