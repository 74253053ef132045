"""What a fine-tune leaves behind.

    output/adapter/            adapter_config.json, adapter_model.safetensors: PEFT's format, loads with peft
    output/merged/             config.json, safetensors, tokenizer: the whole tuned model, loads with transformers
    output/metrics.jsonl  loss.png  config.yaml

Adapter and merged model never share a folder: transformers would load the merged weights and apply the adapter to them
again. Both are computed from the weights in memory, which stay as they are. Each folder appears whole or not at all.
"""

import dataclasses
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor, nn

from trainyard.contract.errors import from_os_error
from trainyard.trainers.torchtune import base_model, weights
from trainyard.trainers.torchtune.config import Config, ModelConfig
from trainyard.trainers.torchtune.decoder import hugging_face_name
from trainyard.trainers.torchtune.lora import adapted_layers, full_precision
from trainyard.trainers.torchtune.model_directory import ModelShape

_BESIDE_THE_WEIGHTS: Final = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
)
"""Files of the base model that the tuned one needs too."""
_PEFT_PARTS: Final = ("lora_A.weight", "lora_B.weight", "lora_magnitude_vector")
"""PEFT's names of a layer's trained parameters, in the order of `AdaptedLinear.trained`."""


def prepare(directory: Path) -> None:
    """Make the output folder and prove that it can be written.

    Raises CannotWriteError.
    """
    probe = directory / ".probe"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise from_os_error(error, f"output_dir: write into {str(directory)!r}") from error


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """Give an empty folder to fill, which takes the place of `folder` when the block ends well."""
    partial, old = folder.with_name(f".{folder.name}.partial"), folder.with_name(f".{folder.name}.old")
    try:
        for leftover in (partial, old):
            shutil.rmtree(leftover, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise from_os_error(error, f"write {str(folder)!r}") from error


def save_adapter(model: nn.Module, adapter: ModelConfig, base: Path, folder: Path) -> None:
    """Write the adapter as PEFT loads it, float32; `base` is the model directory that it belongs to."""
    belongs_to = base_model.identify(base)
    tensors: dict[str, Tensor] = {}
    for name, layer in adapted_layers(model):
        stem = f"base_model.model.{hugging_face_name(name)}"
        for part, parameter in zip(_PEFT_PARTS, layer.trained(), strict=False):
            # clone: safetensors refuses tensors that are views of one storage, as trained parameters are.
            tensors[f"{stem}.{part}"] = parameter.detach().cpu().clone()
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": belongs_to.name_or_path,
        "revision": belongs_to.revision,
        "r": adapter.lora_rank,
        "lora_alpha": adapter.lora_alpha,
        "lora_dropout": adapter.lora_dropout,
        "target_modules": list(adapter.target_modules),
        "bias": "none",
        "use_dora": adapter.use_dora,
        "use_rslora": adapter.use_rslora,
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "modules_to_save": None,
    }
    with _replacing(folder) as partial:
        save_file(tensors, partial / "adapter_model.safetensors", metadata={"format": "pt"})
        (partial / "adapter_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def save_merged(model: nn.Module, shape: ModelShape, base: Path, folder: Path) -> None:
    """Write the whole tuned model in the dtype of the base, with the base's tokenizer and settings."""
    dtype = getattr(torch, shape.dtype, torch.float32)
    with _replacing(folder) as partial:
        weights.save(_merged_tensors(model, dtype), partial)
        for name in _BESIDE_THE_WEIGHTS:
            if (base / name).is_file():
                shutil.copyfile(base / name, partial / name)


def _merged_tensors(model: nn.Module, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    merged = {f"{name}.weight": layer for name, layer in adapted_layers(model)}
    for name, parameter in model.named_parameters():
        if weights.is_adapter(name):
            continue
        value = merged[name].merged_weight() if name in merged else full_precision(parameter)
        yield hugging_face_name(name), value.to(device="cpu", dtype=dtype).clone()


def save_config(config: Config, file: Path) -> None:
    """Write the resolved configuration, in the form that `--config` reads; the method is the recipe's to say."""
    values = _plain(dataclasses.asdict(config))
    again = f"# tune run {values.pop('method')}_finetune_single_device --config {file.name}    does the same again\n"
    file.write_text(again + yaml.safe_dump(values, sort_keys=False), encoding="utf-8")


def _plain(value: Any) -> Any:
    """Turn a configuration into what YAML has: text for paths, lists for tuples; what is None is left out."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value
