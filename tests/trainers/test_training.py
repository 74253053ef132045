"""Whole fine-tunes of a tiny model in this process: what is the same in every shape of the job, and what is left."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from trainyard.contract.errors import (
    BadDataError,
    CannotWriteError,
    ConfigError,
    DivergedError,
    OutOfMemoryError,
    SourceNotFoundError,
    TrainyardError,
    UnsupportedError,
)

pytestmark = [
    pytest.mark.trainer,
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning"),  # peft asks transformers for it.
]
LORA, FULL = "lora_finetune_single_device", "full_finetune_single_device"
Words = Callable[..., list[str]]


def train(words: list[str], recipe: str = LORA, environ: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Train as the command line does; gives the lines of metrics.jsonl."""
    import torch

    from trainyard.trainers.torchtune.process_group import ProcessGroup
    from trainyard.trainers.torchtune.recipe import train as run
    from trainyard.trainers.torchtune.resolve import resolve

    torch.set_num_threads(1)
    environ = {"OMP_NUM_THREADS": "1", **(environ or {})}
    config, notes = resolve(recipe, words[1], words[2:], environ)
    run(config, ProcessGroup(), environ, notes=notes)
    return [json.loads(line) for line in (config.output_dir / "metrics.jsonl").read_text().splitlines()]


def losses(lines: list[dict[str, Any]]) -> list[float]:
    return [line["loss"] for line in lines]


def test_everything_is_left_where_it_belongs(tiny_llama: Path, job: Words, tmp_path: Path) -> None:
    lines = train(job(tiny_llama, "epochs=2", "batch_size=4", "save_merged=True"))
    output = tmp_path / "output"
    assert sorted(str(file.relative_to(output)) for file in output.rglob("*") if file.is_file()) == [
        "adapter/adapter_config.json",
        "adapter/adapter_model.safetensors",
        "config.yaml",
        "loss.png",
        "merged/config.json",
        "merged/generation_config.json",
        "merged/model.safetensors",
        "merged/tokenizer.json",
        "merged/tokenizer_config.json",
        "metrics.jsonl",
    ]
    assert [line["step"] for line in lines] == list(range(1, 13))
    assert lines[-1]["epoch"] == 2.0
    assert lines[-1]["peak_memory_bytes"] > 10_000_000
    assert all(line["tokens_per_second"] > 0 and line["grad_norm"] > 0 for line in lines)
    assert (output / "loss.png").read_bytes().startswith(b"\x89PNG")
    settings = json.loads((output / "adapter" / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == str(tiny_llama)
    assert settings["target_modules"] == ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def test_the_loss_falls_and_the_adapter_holds_what_was_learnt(tiny_llama: Path, job: Words, tmp_path: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    lines = train(job(tiny_llama, "epochs=6", "optimizer.lr=1e-2", "save_merged=True"))
    assert losses(lines)[-1] < 0.6 * losses(lines)[0]
    base = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32)
    tuned = PeftModel.from_pretrained(base, tmp_path / "output" / "adapter").eval()
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "output" / "merged", dtype=torch.float32).eval()
    tokens = torch.arange(60)[None]
    with torch.no_grad():
        assert (tuned(tokens).logits - merged(tokens).logits).abs().max() < 1e-4


def test_the_written_config_repeats_the_run_exactly(tiny_llama: Path, job: Words, tmp_path: Path) -> None:
    first = train(job(tiny_llama, "seed=3", "clip_grad_norm=1.0"))
    kept = tmp_path / "kept.yaml"
    kept.write_bytes((tmp_path / "output" / "config.yaml").read_bytes())
    second = train(["--config", str(kept)])
    assert losses(second) == losses(first)
    assert losses(train(job(tiny_llama, "seed=4"))) != losses(first)


def test_accumulation_and_checkpointing_compute_the_same_steps(tiny_llama: Path, job: Words) -> None:
    whole = train(job(tiny_llama, "batch_size=8", "optimizer.lr=1e-2"))
    parts = train(job(tiny_llama, "batch_size=2", "gradient_accumulation_steps=4", "optimizer.lr=1e-2"))
    recomputed = train(job(tiny_llama, "batch_size=8", "optimizer.lr=1e-2", "enable_activation_checkpointing=True"))
    assert losses(parts) == pytest.approx(losses(whole), abs=1e-4)
    assert losses(recomputed) == pytest.approx(losses(whole), abs=1e-5)


def test_the_loss_is_transformers_loss(tiny_llama: Path, job: Words, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    first = train(job(tiny_llama, "batch_size=1", "shuffle=False", "max_steps_per_epoch=1"))[0]["loss"]
    row = json.loads((tmp_path / "data" / "train.jsonl").read_text().splitlines()[0])
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    prompt = tokenizer(f"{row['question']}\n")["input_ids"]
    response = [*tokenizer(row["answer"], add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    model = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32)
    labels = torch.tensor([[-100] * len(prompt) + response])
    loss = model(input_ids=torch.tensor([prompt + response]), labels=labels).loss.item()
    assert first == pytest.approx(loss, abs=1e-5)


def test_training_on_the_input_counts_the_prompt(tiny_llama: Path, job: Words) -> None:
    assert losses(train(job(tiny_llama, "dataset.train_on_input=True"))) != losses(train(job(tiny_llama)))


def test_all_weights_are_trained_and_written_by_the_full_recipe(tiny_llama: Path, job: Words, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    lines = train(job(tiny_llama, "epochs=4", "optimizer.lr=1e-2"), recipe=FULL)
    assert losses(lines)[-1] < 0.7 * losses(lines)[0]
    assert not (tmp_path / "output" / "adapter").exists()
    before = load_file(tiny_llama / "model.safetensors")
    after = load_file(tmp_path / "output" / "merged" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all((before[name] != after[name]).any() for name in before)


@pytest.mark.parametrize("more", [(), ("model.use_dora=True",), ("dtype=bf16",)], ids=["nf4", "nf4-dora", "nf4-bf16"])
def test_qlora_trains(more: tuple[str, ...], wide_llama: Path, job: Words) -> None:
    lines = train(job(wide_llama, "epochs=3", "optimizer.lr=3e-3", "model.quantize_base=True", *more))
    assert losses(lines)[-1] < 0.7 * losses(lines)[0]


def test_bf16_trains(tiny_llama: Path, job: Words) -> None:
    exact, rounded = train(job(tiny_llama, "epochs=2")), train(job(tiny_llama, "epochs=2", "dtype=bf16"))
    assert losses(rounded) == pytest.approx(losses(exact), abs=0.2)


def test_progress_is_reported_and_ends_at_100_percent_when_all_is_written(
    tiny_llama: Path, job: Words, tmp_path: Path
) -> None:
    received: list[tuple[dict[str, Any], bool]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            written = (tmp_path / "output" / "adapter" / "adapter_config.json").exists()
            received.append((body["trainerStatus"], written))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        train(job(tiny_llama), environ={"KUBEFLOW_TRAINER_SERVER_URL": url})
        server.shutdown()
        thread.join()
    last, written = received[-1]
    assert (last["progressPercentage"], last["estimatedRemainingSeconds"], written) == (100, 0, True)
    assert {metric["name"] for metric in last["metrics"]} >= {"step", "loss"}
    assert all(status["progressPercentage"] < 100 for status, _ in received[:-1])


def test_running_again_replaces_the_output(tiny_llama: Path, job: Words, tmp_path: Path) -> None:
    first = train(job(tiny_llama, "epochs=2", "save_merged=True"))
    assert len(train(job(tiny_llama, "save_merged=True"))) == len(first) // 2
    assert not list(tmp_path.rglob("*partial*"))
    assert not list(tmp_path.rglob("*.old"))


@pytest.mark.parametrize(
    ("words", "recipe", "error", "part"),
    [
        (["optimizer.lr=1e30", "epochs=2"], LORA, DivergedError, r"step \d+ of 12: loss nan"),
        (["model.apply_lora_to_output=True"], LORA, None, ""),
        (["model.quantize_base=True"], LORA, UnsupportedError, "multiple of 64 x 256"),
        (["device=cuda"], LORA, ConfigError, "no CUDA device is visible"),
        (["tokenizer.max_seq_len=4"], LORA, BadDataError, "no row is left"),
        (
            ["dataset.column_map={'input': 'q', 'output': 'a'}"],
            LORA,
            BadDataError,
            "found the columns 'question', 'answer'",
        ),
        (
            ["tokenizer.path=/nowhere/tokenizer.json"],
            LORA,
            SourceNotFoundError,
            "tokenizer.path: '/nowhere/tokenizer.json'",
        ),
        (["output_dir=/dev/null/x"], LORA, CannotWriteError, "output_dir"),
        (["batch_size=100000000"], FULL, OutOfMemoryError, "lower batch_size"),
    ],
)
def test_what_cannot_work_is_refused_with_its_class(
    words: list[str], recipe: str, error: type[TrainyardError] | None, part: str, tiny_llama: Path, job: Words
) -> None:
    import torch

    if "device=cuda" in words and torch.cuda.is_available():
        words = ["device=gpu"]
        part = "expected one of auto, cpu, cuda"
    if error is None:
        train(job(tiny_llama, *words), recipe)
        return
    with pytest.raises(error, match=part) as raised:
        train(job(tiny_llama, *words), recipe)
    assert "\n" not in str(raised.value)


def test_an_adapter_of_a_tied_output_is_refused(write_model: Callable[..., Path], job: Words, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", tie_word_embeddings=True)
    with pytest.raises(ConfigError, match="tied to its embeddings"):
        train(job(model, "model.apply_lora_to_output=True"))


def test_a_model_that_cannot_fit_is_refused_with_the_estimate_before_anything_is_read(
    job: Words, tmp_path: Path
) -> None:
    huge = {
        "model_type": "llama",
        "vocab_size": 128256,
        "hidden_size": 16384,
        "intermediate_size": 53248,
        "num_hidden_layers": 1260,
        "num_attention_heads": 128,
        "num_key_value_heads": 8,
    }
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(huge))
    with pytest.raises(OutOfMemoryError, match=r"needs about \d+\.\d GiB .*and \d+\.\d GiB are free") as raised:
        train(job(tmp_path / "model", "dataset.data_dir=/nowhere"))
    assert "quantize_base=True" in str(raised.value)
    assert not (tmp_path / "output").exists()


def broken_models() -> list[Any]:
    def cut(folder: Path) -> None:
        file = folder / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-1000])

    def rewrite(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
        def do(folder: Path) -> None:
            from safetensors.torch import load_file, save_file

            tensors = load_file(folder / "model.safetensors")
            change(tensors)
            save_file(tensors, folder / "model.safetensors")

        return do

    def transpose(tensors: dict[str, Any]) -> None:
        name = "model.layers.1.mlp.up_proj.weight"
        tensors[name] = tensors[name].t().contiguous()

    def add(tensors: dict[str, Any]) -> None:
        tensors["model.layers.9.mlp.up_proj.weight"] = tensors["model.norm.weight"].clone()

    def index(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        weight_map = {"model.norm.weight": "model-00001-of-00002.safetensors"}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    name = "model.layers.1.mlp.up_proj.weight"
    return [
        pytest.param(cut, BadDataError, "model.safetensors: not a whole weights file", id="cut"),
        pytest.param(rewrite(lambda t: t.pop(name)), BadDataError, f"lacks '{name}'", id="tensor-missing"),
        pytest.param(rewrite(add), BadDataError, "holds 'model.layers.9", id="tensor-foreign"),
        pytest.param(
            rewrite(transpose), BadDataError, r"has shape \[32, 56\], config.json asks for \[56, 32\]", id="shape"
        ),
        pytest.param(index, SourceNotFoundError, "model-00001-of-00002.safetensors", id="shard-missing"),
        pytest.param(lambda f: (f / "model.safetensors").unlink(), SourceNotFoundError, "no weights", id="no-weights"),
        pytest.param(lambda f: (f / "tokenizer.json").write_text("{"), BadDataError, "tokenizer.json", id="tokenizer"),
        pytest.param(
            lambda f: (f / "tokenizer.json").unlink(), SourceNotFoundError, "tokenizer.json", id="no-tokenizer"
        ),
    ]


@pytest.mark.parametrize(("damage", "error", "part"), broken_models())
def test_a_corrupt_model_directory_is_refused_naming_the_file(
    damage: Callable[[Path], Any],
    error: type[TrainyardError],
    part: str,
    tiny_llama: Path,
    job: Words,
    tmp_path: Path,
) -> None:
    import shutil

    folder = Path(shutil.copytree(tiny_llama, tmp_path / "model"))
    damage(folder)
    with pytest.raises(error, match=part) as raised:
        train(job(folder))
    assert str(folder) in str(raised.value)
    assert not (tmp_path / "output" / "adapter").exists()


def test_a_tokenizer_of_another_model_is_refused(
    tiny_llama: Path, write_model: Callable[..., Path], job: Words, tmp_path: Path
) -> None:
    small = write_model(tmp_path / "small", vocab_size=100)
    with pytest.raises(BadDataError, match="tokenizer and model do not belong together"):
        train(job(small))
