"""Tiny models and data, made here: seeded, real formats, trained on in a second."""

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

SENTENCES = (
    "the red fox jumps over a lazy dog",
    "what is two plus three? it is five",
    "say the colour of the sky: blue",
    "naïve café, Straße, 你好世界, здравствуй, 🚂 42%",
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.",
)
TINY: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def write_tokenizer(folder: Path, *, bos: bool = True) -> int:
    """Train a byte-level BPE on a few sentences and save it as transformers does; gives the number of ids."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|begin|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES * 4, trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|begin|> $A", special_tokens=[("<|begin|>", 0)]
        )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin|>",
        "eos_token": "<|end|>",
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return tokenizer.get_vocab_size()


def write_model(folder: Path, family: str = "llama", **settings: Any) -> Path:
    """Write a tiny model directory with transformers: config.json, model.safetensors, tokenizer."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers and peft import torchao from places that it has deprecated.
        import peft  # noqa: F401
        from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    for name, value in settings.items():
        settings[name] = LLAMA3_ROPE if value == "LLAMA3_ROPE" else value
    vocab_size = write_tokenizer(folder)
    kinds: dict[str, tuple[Any, Any]] = {
        "llama": (LlamaConfig, LlamaForCausalLM),
        "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    }
    config_class, model_class = kinds[family]
    torch.manual_seed(1)
    config = config_class(**{**TINY, "vocab_size": vocab_size, "bos_token_id": 0, "eos_token_id": 1, **settings})
    model = model_class(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:  # transformers starts these at 0 and 1, which hides mistakes.
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return folder


def write_rows(file: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write rows as JSONL or parquet, by the file's ending."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def questions(count: int) -> list[dict[str, str]]:
    """Make rows of questions and answers of different lengths."""
    return [
        {"question": f"what is {n} plus {n % 7}?" + " please" * (n % 5), "answer": f"it is {n + n % 7}"}
        for n in range(count)
    ]


@pytest.fixture(name="write_model", scope="session")
def give_write_model() -> Callable[..., Path]:
    """Give the writer of model directories."""
    return write_model


@pytest.fixture(name="write_rows")
def give_write_rows() -> Callable[[Path, Sequence[dict[str, Any]]], Path]:
    """Give the writer of data files."""
    return write_rows


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with grouped queries, made once."""
    return write_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def wide_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of one layer, wide enough for NF4's blocks, made once."""
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_key_value_heads": 4, "num_hidden_layers": 1}
    return write_model(tmp_path_factory.mktemp("wide"), **sizes)


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., list[str]]:
    """Give the words after RECIPE for a model: data of 24 rows and an output folder of this test."""
    write_rows(tmp_path / "data" / "train.jsonl", questions(24))

    def words(model: Path, *more: str) -> list[str]:
        return [
            "--config",
            "auto",
            f"checkpointer.checkpoint_dir={model}",
            f"dataset.data_dir={tmp_path / 'data'}",
            f"output_dir={tmp_path / 'output'}",
            *more,
        ]

    return words
