"""The keys that a configuration may use: ours, torchtune's spellings of ours, and torchtune's others.

Of the others each is accepted only at the values at which it means what happens anyway; so a config made for torchtune
works as it is, and one that asks for something else is refused, not misunderstood.
"""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args, get_type_hints

from trainyard.trainers.torchtune.config import Config

ALIASES: Final = ("model.lora_attn_modules", "model.apply_lora_to_mlp", "model.apply_lora_to_output")
"""torchtune's ways of saying model.target_modules."""

ANY: Final = object()
"""Stands for every value."""
_INSTRUCT: Final = ("instruct_dataset", "alpaca_dataset", "alpaca_cleaned_dataset")
FIXED: Final[Mapping[str, tuple[Any, ...]]] = {
    # What the model directory decides here, and a component names there.
    "model._component_": (ANY,),
    "tokenizer._component_": (ANY,),
    "tokenizer.merges_file": (ANY,),
    "tokenizer.merges_path": (ANY,),
    "tokenizer.vocab_path": (ANY,),
    "checkpointer._component_": (ANY,),
    "checkpointer.checkpoint_files": (ANY,),
    "checkpointer.model_type": (ANY,),
    "checkpointer.output_dir": (ANY,),
    "checkpointer.adapter_checkpoint": (None,),
    "checkpointer.recipe_checkpoint": (None,),
    "dataset._component_": tuple(f"torchtune.datasets.{name}" for name in _INSTRUCT),
    "loss._component_": (
        "torchtune.modules.loss.CEWithChunkedOutputLoss",
        "torchtune.modules.loss.LinearCrossEntropyLoss",
        "torch.nn.CrossEntropyLoss",
    ),
    "optimizer._component_": ("torch.optim.AdamW",),
    "optimizer.fused": (True, False, None),
    "lr_scheduler._component_": ("torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup",),
    # What is always so here.
    "metric_logger": (ANY,),
    "profiler": (ANY,),
    "log_peak_memory_stats": (True, False),
    "save_adapter_weights_only": (True, False),
    "profiler.enabled": (False,),
    # What is not there yet, or for one process makes no difference.
    "compile": (False,),
    "dataset.packed": (False,),
    "enable_activation_offloading": (False,),
    "custom_sharded_layers": (ANY,),
    "fsdp.cpu_offload": (False,),
    "fsdp_cpu_offload": (False,),
    "low_cpu_ram": (True, False),
    "optimizer_in_bwd": (False,),
    "resume_from_checkpoint": (False,),
    "tensor_parallel_dim": (1,),
    "tensor_parallel_plan._component_": (ANY,),
    "tokenizer.prompt_template": (None,),
}
"""Keys of torchtune's that have no field here, and the values at which they mean what happens anyway."""
_FREE_SECTIONS: Final = ("metric_logger", "profiler")
"""Sections of which any key may be given: what they set up is always there, or never."""
OF_NAMED_CONFIG: Final = frozenset(
    """batch_size epochs gradient_accumulation_steps max_steps_per_epoch seed shuffle clip_grad_norm log_every_n_steps
    enable_activation_checkpointing optimizer.lr optimizer.weight_decay lr_scheduler.num_warmup_steps model.lora_rank
    model.lora_alpha model.lora_dropout model.use_dora model.quantize_base""".split()
) | set(ALIASES)
"""What is taken of torchtune's own configs: the rest are places of its authors' machines and its own components."""

PEFT: Final = {
    "r": "model.lora_rank",
    "lora_alpha": "model.lora_alpha",
    "lora_dropout": "model.lora_dropout",
    "target_modules": "model.target_modules",
    "use_dora": "model.use_dora",
    "use_rslora": "model.use_rslora",
}
"""PEFT's names to ours."""
PEFT_FIXED: Final[Mapping[str, tuple[Any, ...]]] = {
    "bias": ("none",),
    "task_type": ("CAUSAL_LM", None),
    "peft_type": ("LORA", None),
    "inference_mode": (False,),
    "fan_in_fan_out": (False,),
    "init_lora_weights": (True,),
    "modules_to_save": (None,),
}
"""PEFT's names that have no field here, and the values at which they mean what happens anyway."""


def is_known(key: str) -> bool:
    """Say whether a dotted key means something here."""
    return key in FIELDS or key in ALIASES or key in FIXED or _section(key) in _FREE_SECTIONS


def allowed(key: str) -> tuple[Any, ...] | None:
    """Give the values at which one of torchtune's keys is accepted; None for a key of ours."""
    if key in FIELDS or key in ALIASES:
        return None
    return FIXED[key] if key in FIXED else FIXED[_section(key)]


def canonical(key: str) -> str:
    """Spell `dataset=torchtune.datasets.x` as the component that it names."""
    return f"{key}._component_" if f"{key}._component_" in FIXED else key


def near(name: str, known: Iterable[str] | None = None) -> str:
    """Name the nearest of the known names, as the end of a sentence; nothing when none is near."""
    names = (*FIELDS, *ALIASES, *FIXED) if known is None else known
    found = difflib.get_close_matches(name, sorted(names), n=3, cutoff=0.5)
    return f"; near it: {', '.join(found)}" if found else ""


def _section(key: str) -> str:
    return key.partition(".")[0]


def _fields() -> tuple[dict[str, Any], dict[str, Any]]:
    """Collect the dotted keys of Config with their types, and its sections with their classes."""
    fields: dict[str, Any] = {}
    sections: dict[str, Any] = {}
    for name, kind in get_type_hints(Config).items():
        plain = next((part for part in get_args(kind) if dataclasses.is_dataclass(part)), kind)
        if dataclasses.is_dataclass(plain):
            sections[name] = plain
            fields.update({f"{name}.{inner}": hint for inner, hint in get_type_hints(plain).items()})
        elif name != "method":
            fields[name] = kind
    return fields, sections


FIELDS, SECTIONS = _fields()
"""Our dotted keys with their types; the sections with their classes."""
