"""How much memory a fine-tune will take, and how much there is: a run that cannot fit is refused before it starts.

The estimate counts what dominates (weights, gradients, optimizer, saved activations, logits); it is meant to be right
within a quarter, not to the byte.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from trainyard.contract.errors import OutOfMemoryError
from trainyard.trainers.torchtune.config import Config, ModelConfig
from trainyard.trainers.torchtune.lora import OUTPUT_TARGET
from trainyard.trainers.torchtune.model_directory import ModelShape

_GIB: Final = 1024**3
_BYTES: Final = {torch.float32: 4, torch.bfloat16: 2}
_NF4_BYTES: Final = 0.52
"""4 bits, and a byte of scale for each block of 64."""
_OVERHEAD: Final = 1.3
"""Real peak over what the blocks keep on paper: temporaries of the backward pass, the allocator. Measured on CPU."""
_CGROUP: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """Bytes of one process, by purpose."""

    weights: int
    trained: int
    """Gradients and optimizer state, and the adapter's own values."""
    activations: int
    """What the forward pass of one batch keeps for the backward pass, logits included."""

    @property
    def total(self) -> int:
        """Sum it up."""
        return self.weights + self.trained + self.activations

    def describe(self) -> str:
        """Say it for people: `3.1 GiB (weights 2.9, gradients and optimizer 0.1, activations 0.1)`."""
        parts = f"weights {_gib(self.weights)}, gradients and optimizer {_gib(self.trained)}"
        return f"{_gib(self.total)} GiB ({parts}, activations {_gib(self.activations)})"


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f}" if size >= _GIB / 10 else f"{size / _GIB:.3f}"


def adapter_parameters(shape: ModelShape, adapter: ModelConfig) -> int:
    """Count the parameters of an adapter."""
    sizes = {name: size for name, size in shape.matrices().items() if name in adapter.target_modules}
    count = shape.num_layers * sum(adapter.lora_rank * sum(size) for size in sizes.values())
    if adapter.use_dora:
        count += shape.num_layers * sum(size[0] for size in sizes.values())
    if OUTPUT_TARGET in adapter.target_modules:
        count += adapter.lora_rank * (shape.vocab_size + shape.embed_dim) + adapter.use_dora * shape.vocab_size
    return count


def estimate(config: Config, shape: ModelShape, *, seq_len: int, dtype: torch.dtype) -> Estimate:
    """Estimate one process' memory when the longest row has `seq_len` tokens."""
    size = _BYTES[dtype]
    weights = shape.parameter_count() * size
    if config.model is not None and config.model.quantize_base:
        weights -= round(shape.matrix_parameters() * (size - _NF4_BYTES))
    if config.model is None:
        trained = 3 * weights
    else:
        trained = 4 * 4 * adapter_parameters(shape, config.model)
    tokens = config.batch_size * seq_len
    heads = shape.head_dim * (3 * shape.num_heads + 2 * shape.num_kv_heads + 2 * shape.num_heads)
    layer = _OVERHEAD * (6 * shape.embed_dim + heads + 4 * shape.intermediate_dim)
    kept = layer * shape.num_layers
    if config.enable_activation_checkpointing:
        kept = shape.embed_dim * shape.num_layers + 2 * layer  # One layer, computed again, and its gradients.
    logits = 3 * 4 * shape.vocab_size  # Logits, their softmax and its gradient, float32.
    return Estimate(weights=weights, trained=trained, activations=round(tokens * (kept * size + logits)))


def available(device: torch.device) -> int:
    """Measure how many bytes may still be taken on a device: free memory within the container's limit."""
    if device.type == "cuda":
        free, _total = torch.cuda.mem_get_info(device)
        return int(free)
    return min([_machine_available(), *_cgroup_rests()])


def _machine_available() -> int:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import os

    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cgroup_rests() -> list[int]:
    """Read what the cgroups (version 2, then 1) still allow; page cache that can be dropped counts as free."""
    rests = []
    for limit, used, cache in (
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ):
        try:
            allowed = int((_CGROUP / limit).read_text())
            taken = int((_CGROUP / used).read_text())
            stat = dict(line.split() for line in (_CGROUP / cache).read_text().splitlines())
        except (OSError, ValueError):
            continue
        rests.append(allowed - taken + int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0)))
    return rests


@contextmanager
def typed(config: Config) -> Iterator[None]:
    """Turn an allocation that fails within the block into OutOfMemoryError, with the peak and what to lower."""
    try:
        yield
    except RuntimeError as error:  # torch.OutOfMemoryError is one; on CPU the allocator raises a plain one.
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        peak = f", peak {_gib(torch.cuda.max_memory_allocated())} GiB" if config.device == "cuda" else ""
        raise OutOfMemoryError(
            f"out of memory while training{peak}: {str(error).splitlines()[0]}; lower batch_size "
            f"(now {config.batch_size}) or tokenizer.max_seq_len, or set enable_activation_checkpointing=True"
        ) from error


def check(needed: Estimate, config: Config, shape: ModelShape, device: torch.device, *, processes: int) -> None:
    """Refuse what cannot fit into what is free now; `processes` share this machine's memory.

    Raises OutOfMemoryError with the estimate and what to lower.
    """
    sharing = processes if device.type == "cpu" else 1
    free = available(device)
    if needed.total * sharing <= free:
        return
    advice = []
    if needed.activations > needed.total // 4:
        advice.append(f"lower batch_size (now {config.batch_size}) or tokenizer.max_seq_len")
        if not config.enable_activation_checkpointing:
            advice.append("set enable_activation_checkpointing=True")
    if config.model is None:
        advice.append("train an adapter instead (a lora recipe or LORA_CONFIG)")
    elif not config.model.quantize_base:
        advice.append("set model.quantize_base=True")
    if config.dtype != "bf16":
        advice.append("use dtype=bf16")
    where = "on this machine" if device.type == "cpu" else f"on {device}"
    times = f", times {sharing} processes" if sharing > 1 else ""
    raise OutOfMemoryError(
        f"a {shape.family} model of {shape.parameter_count():,} parameters needs about {needed.describe()}{times}, and "
        f"{_gib(free)} GiB are free {where}; {', or '.join(advice) or 'take a smaller model'}"
    )
