"""What the first process says while it trains: the plan at the start, then metrics, progress and picture."""

import dataclasses
import logging
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch

from trainyard.contract import paths
from trainyard.contract.errors import TransientError
from trainyard.trainers.torchtune import memory, output, picture
from trainyard.trainers.torchtune.config import Config
from trainyard.trainers.torchtune.derived import Derived
from trainyard.trainers.torchtune.metrics import MetricsFile, StepMetrics
from trainyard.trainers.torchtune.optimisation import StepFigures
from trainyard.trainers.torchtune.process_group import ProcessGroup
from trainyard.trainers.torchtune.progress import ProgressReport, clock

PICTURE_EVERY_SECONDS: Final = 30.0

_log = logging.getLogger(__name__)


def announce(job: Derived, group: ProcessGroup) -> None:
    """Print the resolved configuration and what follows from it, with the equations."""
    config, shape, schedule = job.config, job.shape, job.schedule
    for section, values in _sections(config):
        _log.info("config %s", " ".join(f"{section}{name}={value}" for name, value in values))
    _log.info(
        "model family=%s parameters=%d layers=%d dim=%d vocab=%d",
        shape.family, shape.parameter_count(), shape.num_layers, shape.embed_dim, shape.vocab_size,
    )  # fmt: skip
    if config.model is not None:
        count = memory.adapter_parameters(shape, config.model)
        _log.info("adapter parameters=%d (%.2f %% of the model's)", count, 100 * count / shape.parameter_count())
    _log.info(
        "rows per step = batch x accumulation x ranks = %d x %d x %d = %d",
        config.batch_size, config.gradient_accumulation_steps, group.world_size, job.rows_per_step,
    )  # fmt: skip
    mean = job.data.tokens / len(job.data)
    _log.info(
        "tokens per step = rows per step x mean length = %d x %.1f = %.0f",
        job.rows_per_step, mean, job.rows_per_step * mean,
    )  # fmt: skip
    _log.info(
        "steps = epochs x ceil(rows / rows per step)%s = %d x %d = %d",
        "" if config.max_steps_per_epoch is None else f", at most {config.max_steps_per_epoch} an epoch,",
        config.epochs, job.steps_per_epoch, job.total_steps,
    )  # fmt: skip
    _log.info(
        "learning rate = %s: %d steps up to %g, then %s",
        schedule.name, schedule.warmup_steps, schedule.lr,
        "constant" if schedule.name == "constant" else "down to 0",
    )  # fmt: skip
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


@contextmanager
def reporting(
    job: Derived, group: ProcessGroup, environ: Mapping[str, str]
) -> Iterator[Callable[[int, float, StepFigures], None]]:
    """Give the function to call after each step with its number, learning rate and figures.

    Writes config.yaml at the start, metrics.jsonl as it goes, loss.png now and then, at a good end, and when stopped.
    Processes other than the first get a function that does nothing.
    """
    if not group.is_first:
        yield lambda *_: None
        return
    folder = job.config.output_dir
    output.save_config(job.config, folder / paths.RESOLVED_CONFIG)
    metrics = MetricsFile(folder / paths.METRICS)
    progress = ProgressReport(job.total_steps, environ)
    base = job.config.checkpointer.checkpoint_dir.resolve().name
    title = f"{base}: {'LoRA' if job.config.method == 'lora' else 'full'} fine-tune, {len(job.data)} rows"
    began = last_time = time.monotonic()
    next_picture = began + PICTURE_EVERY_SECONDS
    pending_tokens = 0

    def report(step: int, lr: float, figures: StepFigures) -> None:
        nonlocal last_time, next_picture, pending_tokens
        pending_tokens += figures.tokens
        if step % job.config.log_every_n_steps and step != job.total_steps:
            return
        now = time.monotonic()
        speed = pending_tokens / max(1e-9, now - last_time)
        metrics.write(
            StepMetrics(
                step=step,
                epoch=round(step / job.steps_per_epoch, 4),
                loss=figures.loss,
                lr=lr,
                grad_norm=figures.grad_norm,
                tokens=pending_tokens,
                tokens_per_second=round(speed, 1),
                cpu_seconds=round(time.process_time(), 4),
                peak_memory_bytes=_peak_memory(job.device),
            )
        )
        last_time, pending_tokens = now, 0
        progress.update(step, loss=figures.loss, lr=lr, tokens_per_second=speed)
        if now >= next_picture:
            picture.draw(metrics.steps, metrics.losses, title, folder / paths.LOSS_PICTURE)
            next_picture = time.monotonic() + PICTURE_EVERY_SECONDS

    try:
        yield report
        _log.info("trained and written in %s", clock(round(time.monotonic() - began)))
        picture.draw(metrics.steps, metrics.losses, title, folder / paths.LOSS_PICTURE)
        progress.done(metrics.losses[-1])
    except TransientError:  # Told to stop: what was reached deserves its picture too.
        picture.draw(metrics.steps, metrics.losses, title, folder / paths.LOSS_PICTURE)
        raise
    finally:
        metrics.close()
        progress.close()


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024  # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
