"""The fine-tune, from a configuration to an adapter; reads top to bottom.

    derive what follows from model and data -> refuse what cannot work -> build -> train -> write

Every process of the group runs `train`; only the first speaks and writes.
"""

import dataclasses
import logging
import math
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, cast

import torch
import torch.utils.checkpoint

from trainyard.contract import paths
from trainyard.contract.errors import BadDataError, ConfigError, DivergedError, TransientError, UnsupportedError
from trainyard.trainers.torchtune import decoder, instruct, lora, memory, output, picture, rows, tokenizer, weights
from trainyard.trainers.torchtune.config import Config, Device, Dtype
from trainyard.trainers.torchtune.dataset import Dataset, batches, epoch_order, step_rows, tokenise
from trainyard.trainers.torchtune.metrics import MetricsFile, StepMetrics
from trainyard.trainers.torchtune.model_directory import ModelShape, read_shape
from trainyard.trainers.torchtune.optimisation import Optimisation, Schedule
from trainyard.trainers.torchtune.process_group import ProcessGroup, joined
from trainyard.trainers.torchtune.progress import ProgressReport, clock

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_PICTURE_EVERY_SECONDS = 30.0

_log = logging.getLogger(__name__)


def train(config: Config, group: ProcessGroup, environ: Mapping[str, str], *, notes: Sequence[str] = ()) -> str:
    """Fine-tune, and give the sentence that says what was done; `notes` are sentences to say first.

    Raises the error of the contract that says who must act; TransientError after SIGTERM, when the adapter so far is
    saved.
    """
    if not group.is_first:
        logging.getLogger("trainyard").setLevel(logging.ERROR)
    for note in notes:
        _log.info("%s", note)

    # Derive.
    device = _device(config, group)
    config = dataclasses.replace(config, device=cast(Device, device.type), dtype=_dtype(config, device))
    dtype = _DTYPES[config.dtype]
    base = config.checkpointer.checkpoint_dir
    shape = read_shape(base)
    _check_possible(config, shape)
    # Weights alone first: a model that cannot fit is refused before the data are read.
    _check_memory(config, shape, group, device, dtype, seq_len=0)
    longest = min(config.tokenizer.max_seq_len or shape.max_position_embeddings, shape.max_position_embeddings)
    data, fill = _data(config, shape, longest)
    plan = _Plan.of(config, data, group)
    _check_memory(config, shape, group, device, dtype, seq_len=data.longest)
    if group.is_first:
        output.prepare(config.output_dir)
    schedule = Schedule.of(config, plan.total_steps)
    config = _resolved(config, schedule, longest)
    _announce(config, shape, data, plan, schedule, group)

    with joined(group, device), _stop_on_sigterm() as stop_asked:
        # Build.
        torch.manual_seed(config.seed + group.rank)  # Dropout only: each process drops elements of its own.
        adapter = _adapter(config)
        model = decoder.build(shape, max_seq_len=data.longest, lora=adapter)
        weights.load(model, shape, base, device=device, dtype=dtype)
        if adapter is None:
            trained = list(model.parameters())
        else:
            trained = lora.initialise(model, device, config.seed)
        model.to(device).train()
        optimisation = Optimisation(trained, config, group)
        run_layer = partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)
        wrap = run_layer if config.enable_activation_checkpointing else None

        # Train.
        with _reporting(config, shape, plan, group, environ) as report:
            step = 0
            for epoch in range(config.epochs):
                order = epoch_order(len(data), seed=config.seed, epoch=epoch, shuffle=config.shuffle)
                for step_of_epoch in range(plan.steps_per_epoch):
                    step += 1
                    mine = step_rows(
                        order, step_of_epoch, plan.rows_per_step, rank=group.rank, world_size=group.world_size
                    )
                    optimisation.begin()
                    for batch in batches(data, mine, config.batch_size, fill=fill, device=device):
                        loss = decoder.loss_sum(model, batch.tokens, batch.targets, run_layer=wrap)
                        loss.backward()
                        optimisation.add(loss, targets=batch.target_count, tokens=batch.token_count)
                    lr = schedule.at(step)
                    figures = optimisation.finish(lr, stop=stop_asked())
                    if not math.isfinite(figures.loss + figures.grad_norm):
                        raise DivergedError(
                            f"step {step} of {plan.total_steps}: loss {figures.loss}, gradient norm "
                            f"{figures.grad_norm}; nothing was saved; lower optimizer.lr (now {schedule.lr:g}) "
                            "or set clip_grad_norm"
                        )
                    report(step, figures.loss, lr, figures.grad_norm, figures.tokens)
                    if figures.must_stop:
                        _save_interrupted(model, config, step, group)
                        raise TransientError(
                            f"SIGTERM: stopped after step {step} of {plan.total_steps}"
                            + ("" if config.model is None else f"; the adapter so far is in checkpoints/step-{step}")
                        )

        # Write.
        if group.is_first:
            _save(model, config, shape)
        group.wait()
    return (
        f"trained {plan.total_steps} steps on {len(data)} rows, last loss {figures.loss:.4f}; see {config.output_dir}"
    )


# Derive ---------------------------------------------------------------------------------------------------------------


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


def _check_possible(config: Config, shape: ModelShape) -> None:
    """Refuse what model and method cannot do together."""
    adapter = config.model
    if adapter is None:
        return
    if "lm_head" in adapter.target_modules and shape.tied_embeddings:
        raise ConfigError(
            f"model.target_modules: lm_head: the output projection of {config.checkpointer.checkpoint_dir} is tied to "
            "its embeddings and cannot have an adapter of its own"
        )
    for name in ("quantize_base", "use_dora"):
        if getattr(adapter, name):
            raise UnsupportedError(f"model.{name}: not supported yet; LoRA and rsLoRA on full-precision weights are")


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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """How many steps there are."""

    rows_per_step: int
    steps_per_epoch: int
    total_steps: int

    @classmethod
    def of(cls, config: Config, data: Dataset, group: ProcessGroup) -> "_Plan":
        rows_per_step = config.batch_size * config.gradient_accumulation_steps * group.world_size
        steps = math.ceil(len(data) / rows_per_step)
        steps = min(steps, config.max_steps_per_epoch or steps)
        return cls(rows_per_step=rows_per_step, steps_per_epoch=steps, total_steps=steps * config.epochs)


def _resolved(config: Config, schedule: Schedule, longest: int) -> Config:
    """Fill in what the configuration left open, so that what is printed and written is what is done."""
    return dataclasses.replace(
        config,
        save_merged=config.model is None if config.save_merged is None else config.save_merged,
        tokenizer=dataclasses.replace(config.tokenizer, max_seq_len=longest),
        optimizer=dataclasses.replace(config.optimizer, lr=schedule.lr),
        lr_scheduler=dataclasses.replace(
            config.lr_scheduler, name=schedule.name, num_warmup_steps=schedule.warmup_steps
        ),
    )


def _announce(
    config: Config, shape: ModelShape, data: Dataset, plan: _Plan, schedule: Schedule, group: ProcessGroup
) -> None:
    """Print the resolved configuration and what follows from it, with the equations."""
    for section, values in _sections(config):
        _log.info("config %s", " ".join(f"{section}{name}={value}" for name, value in values))
    _log.info(
        "model family=%s parameters=%d layers=%d dim=%d vocab=%d dtype=%s device=%s",
        shape.family, shape.parameter_count(), shape.num_layers, shape.embed_dim, shape.vocab_size,
        config.dtype, config.device,
    )  # fmt: skip
    if config.model is not None:
        count = memory.adapter_parameters(shape, config.model.lora_rank, config.model.target_modules)
        share = 100 * count / shape.parameter_count()
        _log.info("adapter parameters=%d (%.2f %% of the model's)", count, share)
    _log.info(
        "rows per step = batch x accumulation x ranks = %d x %d x %d = %d",
        config.batch_size, config.gradient_accumulation_steps, group.world_size, plan.rows_per_step,
    )  # fmt: skip
    mean = data.tokens / len(data)
    _log.info(
        "tokens per step = rows per step x mean length = %d x %.1f = %.0f",
        plan.rows_per_step,
        mean,
        plan.rows_per_step * mean,
    )
    _log.info(
        "steps = epochs x ceil(rows / rows per step)%s = %d x %d = %d",
        "" if config.max_steps_per_epoch is None else f", at most {config.max_steps_per_epoch} an epoch,",
        config.epochs, plan.steps_per_epoch, plan.total_steps,
    )  # fmt: skip
    _log.info("learning rate %s: %d steps up to %g, then %s", schedule.name, schedule.warmup_steps, schedule.lr,
              "constant" if schedule.name == "constant" else "down to 0")  # fmt: skip
    if schedule.warmup_steps >= schedule.total_steps > 1:
        _log.warning(
            "lr_scheduler.num_warmup_steps=%d is not below the %d steps there are: the learning rate never gets to %g",
            schedule.warmup_steps, schedule.total_steps, schedule.lr,
        )  # fmt: skip


def _sections(config: Config) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    yield "", [(name, value) for name, value in values.items() if not dataclasses.is_dataclass(value)]
    for name, section in values.items():
        if dataclasses.is_dataclass(section):
            yield f"{name}.", [(field.name, getattr(section, field.name)) for field in dataclasses.fields(section)]


# Build ----------------------------------------------------------------------------------------------------------------


def _adapter(config: Config) -> lora.Lora | None:
    if config.model is None:
        return None
    return lora.Lora(
        rank=config.model.lora_rank,
        alpha=config.model.lora_alpha,
        dropout=config.model.lora_dropout,
        targets=config.model.target_modules,
        use_rslora=config.model.use_rslora,
    )


# Train ----------------------------------------------------------------------------------------------------------------


@contextmanager
def _stop_on_sigterm() -> Iterator[Callable[[], bool]]:
    """Turn SIGTERM into a wish that the loop asks for after each step."""
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    before = signal.signal(signal.SIGTERM, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _reporting(
    config: Config, shape: ModelShape, plan: _Plan, group: ProcessGroup, environ: Mapping[str, str]
) -> Iterator[Callable[[int, float, float, float, int], None]]:
    """Give the function that is called after each step; only the first process reports."""
    if not group.is_first:
        yield lambda *_: None
        return
    output.save_config(config, config.output_dir / paths.RESOLVED_CONFIG)
    metrics = MetricsFile(config.output_dir / paths.METRICS)
    progress = ProgressReport(plan.total_steps, environ)
    title = f"{config.checkpointer.checkpoint_dir.resolve().name} ({shape.family}), {config.method} fine-tune"
    began = last_time = time.monotonic()
    next_picture = began + _PICTURE_EVERY_SECONDS
    pending_tokens = 0

    def report(step: int, loss: float, lr: float, grad_norm: float, tokens: int) -> None:
        nonlocal last_time, next_picture, pending_tokens
        pending_tokens += tokens
        if step % config.log_every_n_steps and step != plan.total_steps:
            return
        now = time.monotonic()
        speed = pending_tokens / max(1e-9, now - last_time)
        last_time, pending_tokens = now, 0
        metrics.write(
            StepMetrics(
                step=step,
                epoch=round(step / plan.steps_per_epoch, 4),
                loss=loss,
                lr=lr,
                grad_norm=grad_norm,
                tokens_per_second=round(speed, 1),
                peak_memory_bytes=_peak_memory(config.device),
            )
        )
        progress.update(step, loss=loss, lr=lr, tokens_per_second=speed)
        if now >= next_picture:
            picture.draw(metrics.steps, metrics.losses, title, config.output_dir / paths.LOSS_PICTURE)
            next_picture = time.monotonic() + _PICTURE_EVERY_SECONDS

    try:
        yield report
        _log.info("training took %s", clock(round(time.monotonic() - began)))
        picture.draw(metrics.steps, metrics.losses, title, config.output_dir / paths.LOSS_PICTURE)
        progress.done(metrics.losses[-1])
    finally:
        metrics.close()
        progress.close()


def _peak_memory(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# Write ----------------------------------------------------------------------------------------------------------------


def _save(model: Any, config: Config, shape: ModelShape) -> None:
    base = config.checkpointer.checkpoint_dir
    if config.model is not None:
        output.save_adapter(model, config.model, base, config.output_dir / paths.ADAPTER)
        _log.info("adapter written to %s", config.output_dir / paths.ADAPTER)
    if config.save_merged:
        output.save_merged(model, shape, base, config.output_dir / paths.MERGED)
        _log.info("merged model written to %s", config.output_dir / paths.MERGED)


def _save_interrupted(model: Any, config: Config, step: int, group: ProcessGroup) -> None:
    if group.is_first and config.model is not None:
        folder = config.output_dir / "checkpoints" / f"step-{step}"
        output.save_adapter(model, config.model, config.checkpointer.checkpoint_dir, folder)
