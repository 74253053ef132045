"""What follows from a configuration, a model directory and the data, before anything is built; and what cannot work."""

import dataclasses
import logging
import math
from dataclasses import dataclass
from typing import Final, cast

import torch

from trainyard.contract.errors import BadDataError, ConfigError, UnsupportedError
from trainyard.trainers.torchtune import instruct, memory, rows, tokenizer
from trainyard.trainers.torchtune.config import Config, Device, Dtype
from trainyard.trainers.torchtune.dataset import Dataset, tokenise
from trainyard.trainers.torchtune.lora import OUTPUT_TARGET, Lora
from trainyard.trainers.torchtune.model_directory import ModelShape, read_shape
from trainyard.trainers.torchtune.optimisation import Schedule
from trainyard.trainers.torchtune.process_group import ProcessGroup

_DTYPES: Final = {"fp32": torch.float32, "bf16": torch.bfloat16}
_NF4_MULTIPLE: Final = 64 * 256
"""NF4 stores blocks of 64 elements, and their scales in blocks of 256."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Derived:
    """Everything that the recipe works with."""

    config: Config
    """With nothing left open: device, dtype, learning rate, lengths."""
    shape: ModelShape
    lora: Lora | None
    """None for a full fine-tune."""
    data: Dataset
    padding_id: int
    """Token that fills the end of short rows."""
    schedule: Schedule
    rows_per_step: int
    """Of all processes together."""
    steps_per_epoch: int
    device: torch.device
    dtype: torch.dtype
    """Of the base weights and the computation."""

    @property
    def total_steps(self) -> int:
        """Count the steps of all epochs."""
        return self.schedule.total_steps


def derive(config: Config, group: ProcessGroup) -> Derived:
    """Read model shape and data, and refuse what cannot work.

    Raises ConfigError, UnsupportedError, BadDataError, SourceNotFoundError, OutOfMemoryError.
    """
    device = _device(config, group)
    dtype_name = _dtype(config, device)
    dtype = _DTYPES[dtype_name]
    base = config.checkpointer.checkpoint_dir
    shape = read_shape(base)
    _check_adapter(config, shape)
    # With no tokens first: a model whose weights alone cannot fit is refused before the data are read.
    _check_memory(config, shape, group, device, dtype, seq_len=0)
    longest = min(config.tokenizer.max_seq_len or shape.max_position_embeddings, shape.max_position_embeddings)
    data, padding_id = _data(config, shape, longest)
    _check_memory(config, shape, group, device, dtype, seq_len=data.longest)
    rows_per_step = config.batch_size * config.gradient_accumulation_steps * group.world_size
    steps_per_epoch = math.ceil(len(data) / rows_per_step)
    steps_per_epoch = min(steps_per_epoch, config.max_steps_per_epoch or steps_per_epoch)
    schedule = Schedule.of(config, steps_per_epoch * config.epochs)
    return Derived(
        config=dataclasses.replace(
            config,
            device=cast(Device, device.type),
            dtype=dtype_name,
            save_merged=config.model is None if config.save_merged is None else config.save_merged,
            tokenizer=dataclasses.replace(config.tokenizer, max_seq_len=longest),
            optimizer=dataclasses.replace(config.optimizer, lr=schedule.lr),
            lr_scheduler=dataclasses.replace(
                config.lr_scheduler, name=schedule.name, num_warmup_steps=schedule.warmup_steps
            ),
        ),
        shape=shape,
        lora=_lora(config),
        data=data,
        padding_id=padding_id,
        schedule=schedule,
        rows_per_step=rows_per_step,
        steps_per_epoch=steps_per_epoch,
        device=device,
        dtype=dtype,
    )


def _device(config: Config, group: ProcessGroup) -> torch.device:
    has_cuda = torch.cuda.is_available()
    if config.device == "cuda" and not has_cuda:
        raise ConfigError("device=cuda: no CUDA device is visible here; leave device out, or use device=cpu")
    if config.device == "cpu" or not has_cuda:
        return torch.device("cpu")
    if group.local_world_size > torch.cuda.device_count():
        raise ConfigError(
            f"{group.local_world_size} processes on this machine and {torch.cuda.device_count()} CUDA devices; "
            "use one process for each device"
        )
    device = torch.device("cuda", group.local_rank)
    torch.cuda.set_device(device)
    return device


def _dtype(config: Config, device: torch.device) -> Dtype:
    if config.dtype != "auto":
        return config.dtype
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"


def _lora(config: Config) -> Lora | None:
    if config.model is None:
        return None
    return Lora(
        rank=config.model.lora_rank,
        alpha=config.model.lora_alpha,
        dropout=config.model.lora_dropout,
        targets=config.model.target_modules,
        use_rslora=config.model.use_rslora,
        use_dora=config.model.use_dora,
    )


def _check_adapter(config: Config, shape: ModelShape) -> None:
    """Refuse what this model and this adapter cannot do together."""
    if config.model is None:
        return
    if OUTPUT_TARGET in config.model.target_modules and shape.tied_embeddings:
        raise ConfigError(
            f"model.target_modules: {OUTPUT_TARGET}: the output projection of {config.checkpointer.checkpoint_dir} is "
            "tied to its embeddings and cannot have an adapter of its own"
        )
    if config.model.quantize_base:
        for name, size in shape.matrices().items():
            if math.prod(size) % _NF4_MULTIPLE:
                raise UnsupportedError(
                    f"model.quantize_base: NF4 needs matrices whose number of elements is a multiple of 64 x 256 = "
                    f"{_NF4_MULTIPLE}, and {name} of this model has {size[0]} x {size[1]}; leave quantize_base out"
                )


def _check_memory(
    config: Config, shape: ModelShape, group: ProcessGroup, device: torch.device, dtype: torch.dtype, *, seq_len: int
) -> None:
    needed = memory.estimate(config, shape, seq_len=seq_len, dtype=dtype)
    memory.check(needed, config, shape, device, processes=group.local_world_size)
    if seq_len:
        _log.info("memory estimate=%s for each process", needed.describe())


def _data(config: Config, shape: ModelShape, longest: int) -> tuple[Dataset, int]:
    """Read and tokenise the data; gives them and the token to pad with."""
    asked = config.dataset
    table = rows.read(asked.data_dir, asked.data_files, asked.source, asked.split)
    pairs = instruct.pairs(
        table.rows, table.columns, column_map=asked.column_map, system_prompt=asked.new_system_prompt
    )
    tokens = tokenizer.load(config.checkpointer.checkpoint_dir, config.tokenizer.path)
    data = tokenise(pairs, tokens, max_seq_len=longest, train_on_input=asked.train_on_input)
    highest = int(data.ids.max())
    if highest >= shape.vocab_size:
        raise BadDataError(
            f"{tokens.file}: gives token {highest}, and the model of {config.checkpointer.checkpoint_dir} has only "
            f"{shape.vocab_size}; tokenizer and model do not belong together"
        )
    _log.info(
        "data rows=%d shape=%s files=%d tokens=%d longest=%d",
        len(data), pairs.shape, len(table.files), data.tokens, data.longest,
    )  # fmt: skip
    if pairs.unusable:
        _log.warning(
            "data unusable_rows=%d of %d, the first: %s", pairs.unusable, len(table.rows), pairs.first_unusable
        )
    if data.cut or data.dropped:
        _log.warning(
            "data max_seq_len=%d: %d rows lost their end, %d were left out because the prompt alone is longer",
            longest, data.cut, data.dropped,
        )  # fmt: skip
    return data, tokens.eos_id
