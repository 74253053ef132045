"""The command tune, in processes of its own: one, two, told to stop, killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.trainer

SHAPE = {
    "model_type": "llama",
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
ONE, TWO = ("lora_finetune_single_device",), ("--nproc_per_node=2", "lora_finetune_distributed")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with model/ and data/, made without transformers."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers

    from trainyard.trainers.torchtune import decoder, weights
    from trainyard.trainers.torchtune.model_directory import read_shape

    folder = tmp_path_factory.mktemp("inputs")
    (folder / "model").mkdir()
    (folder / "data").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps({**SHAPE, "eos_token_id": 1}))
    vocabulary = {"<unk>": 0, "<end>": 1} | {str(number): number for number in range(2, 64)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "model" / "tokenizer.json"))
    empty = decoder.build(read_shape(folder / "model"), max_seq_len=8, lora=None, device=torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    tensors = (
        (decoder.hugging_face_name(name), torch.randn(parameter.shape, generator=generator) * 0.3)
        for name, parameter in empty.named_parameters()
    )
    weights.save(tensors, folder / "model")
    with (folder / "data" / "train.jsonl").open("w") as file:
        for number in range(22):  # The last step has fewer rows than the others.
            words = " ".join(str(2 + (number * 7 + place) % 62) for place in range(5 + number % 9))
            file.write(json.dumps({"prompt": words, "completion": f"{2 + number} {3 + number}"}) + "\n")
    return folder


def start(inputs: Path, output: Path, recipe: tuple[str, ...], *words: str, **environ: str) -> subprocess.Popen[str]:
    command = [
        sys.executable, "-W", "error", "-m", "trainyard.entrypoints.tune", "run", *recipe, "--config", "auto",
        f"checkpointer.checkpoint_dir={inputs / 'model'}", f"dataset.data_dir={inputs / 'data'}",
        f"output_dir={output}", "optimizer.lr=1e-2", *words,
    ]  # fmt: skip
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PET_")},
        "OMP_NUM_THREADS": "1",
        "TERMINATION_LOG_PATH": f"{output}.termination",
        **environ,
    }
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def end(output: Path, process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    _, log = process.communicate(timeout=90)
    return process.returncode, json.loads(Path(f"{output}.termination").read_text()), log


def losses(output: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (output / "metrics.jsonl").read_text().splitlines()]


def wait_for_steps(output: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    file = output / "metrics.jsonl"
    while not (file.exists() and file.read_text().count("\n") >= count):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ranks_of(launcher: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]


def test_two_processes_compute_what_one_computes(inputs: Path, tmp_path: Path) -> None:
    code, termination, log = end(tmp_path / "1", start(inputs, tmp_path / "1", ONE, "batch_size=4", "epochs=2"))
    assert code == 0, log
    assert termination["message"].startswith("trained 12 steps on 22 rows")
    assert "config batch_size" not in log
    assert "rows per step = batch x accumulation x ranks = 4 x 1 x 1 = 4" in log
    assert "step=12/12 loss=" in log
    # By PET_* alone, as a pod gets it.
    pet = {"PET_NPROC_PER_NODE": "2", "PET_NNODES": "1", "PET_NODE_RANK": "0"}
    two = start(inputs, tmp_path / "2", TWO[1:], "batch_size=2", "epochs=2", **pet)
    code, _, log = end(tmp_path / "2", two)
    assert code == 0, log
    assert "rows per step = batch x accumulation x ranks = 2 x 1 x 2 = 4" in log
    assert "rank=1" not in log  # Only the first speaks.
    assert losses(tmp_path / "2") == pytest.approx(losses(tmp_path / "1"), abs=1e-5)
    assert (tmp_path / "2" / "adapter" / "adapter_model.safetensors").is_file()


def test_two_nodes_of_one_process_compute_what_one_computes(inputs: Path, tmp_path: Path) -> None:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    where = f"--rdzv_endpoint=127.0.0.1:{port}"
    recipe = (where, "lora_finetune_distributed")
    nodes = [
        start(
            inputs, tmp_path / name, recipe, "batch_size=2",
            PET_NNODES="2", PET_NPROC_PER_NODE="1", PET_NODE_RANK=str(rank),
        )
        for rank, name in enumerate("ab")
    ]  # fmt: skip
    ends = [end(tmp_path / name, node) for name, node in zip("ab", nodes, strict=True)]
    assert [code for code, _, _ in ends] == [0, 0], ends[0][2]
    assert len(losses(tmp_path / "a")) == 6
    assert not (tmp_path / "b").exists()  # Only the first process writes.


def test_a_failure_of_all_ranks_comes_out_as_one_sentence(inputs: Path, tmp_path: Path) -> None:
    code, termination, _ = end(tmp_path / "o", start(inputs, tmp_path / "o", TWO, "optimizer.lr=1e30", "epochs=3"))
    assert code == 68
    assert termination["reason"] == "Diverged"
    assert "step 2 of" in termination["message"]


@pytest.mark.parametrize("who", ["one", "launcher", "rank"])
def test_sigterm_finishes_the_step_and_keeps_the_adapter(inputs: Path, tmp_path: Path, who: str) -> None:
    output = tmp_path / "o"
    process = start(inputs, output, ONE if who == "one" else TWO, "epochs=100000")
    wait_for_steps(output, 3)
    os.kill(ranks_of(process.pid)[-1] if who == "rank" else process.pid, signal.SIGTERM)
    code, termination, log = end(output, process)
    assert code == 75, log
    assert termination["retryable"]
    step = len(losses(output))
    assert f"stopped after step {step} of" in termination["message"]
    assert (output / "checkpoints" / f"step-{step}" / "adapter_model.safetensors").is_file()
    assert not (output / "adapter").exists()
    assert (output / "loss.png").is_file()


def test_a_killed_rank_ends_the_job_with_its_signal(inputs: Path, tmp_path: Path) -> None:
    output = tmp_path / "o"
    process = start(inputs, output, TWO, "epochs=100000")
    wait_for_steps(output, 3)
    ranks = ranks_of(process.pid)
    assert len(ranks) == 2
    os.kill(ranks[-1], signal.SIGKILL)
    code, termination, _ = end(output, process)
    assert code == 137
    assert "killed (SIGKILL)" in termination["message"]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("epoch=3",), 78, "epoch (command line): unknown key; near it: epochs"),
        (("dataset.data_dir=/nowhere",), 66, "dataset.data_dir: '/nowhere': no such folder"),
        (("--verbose",), 64, "unknown option '--verbose'"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_its_code(
    inputs: Path, tmp_path: Path, words: tuple[str, ...], code: int, part: str
) -> None:
    found, termination, log = end(tmp_path / "o", start(inputs, tmp_path / "o", ONE, *words))
    assert found == code
    assert part in termination["message"]
    assert len([line for line in log.splitlines() if "ERROR" in line]) == 1
    assert "Traceback" not in log


@pytest.mark.parametrize("words", [("ls",), ("run", "--help")])
def test_other_commands_reach_torchtune_itself(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "trainyard.entrypoints.tune", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0
    assert "full_finetune_single_device" in done.stdout or "TORCHRUN-OPTIONS" in done.stdout
    assert done.stderr == ""
