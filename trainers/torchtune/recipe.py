"""The fine-tune, from a configuration to an adapter; reads top to bottom.

    derive what follows from model and data, refusing what cannot work -> build -> train -> write

Every process of the group runs `train`; only the first speaks and writes.
"""

import logging
import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from trainyard.contract import paths
from trainyard.contract.errors import DivergedError, TransientError
from trainyard.trainers.torchtune import decoder, lora, memory, output, threads, weights
from trainyard.trainers.torchtune.config import Config
from trainyard.trainers.torchtune.dataset import batches, epoch_order, step_rows
from trainyard.trainers.torchtune.derived import Derived, derive
from trainyard.trainers.torchtune.optimisation import Optimisation, StepFigures
from trainyard.trainers.torchtune.process_group import ProcessGroup, joined
from trainyard.trainers.torchtune.report import announce, reporting

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

    if job_threads := threads.environment_of_each(group.local_world_size, environ):
        torch.set_num_threads(int(job_threads[threads.OMP_NUM_THREADS]))

    # Derive.
    job = derive(config, group)
    if group.is_first:
        output.prepare(job.config.output_dir)
    announce(job, group)

    with joined(group, job.device), memory.typed(job.config):
        # Build.
        torch.manual_seed(config.seed + group.rank)  # For dropout: each process drops elements of its own.
        model, trained = _build(job)
        optimisation = Optimisation(trained, job.config, group)
        run_layer = partial(checkpoint, use_reentrant=False) if config.enable_activation_checkpointing else None

        # Train. Until here SIGTERM ends the process at once; from here the step is finished and the adapter kept.
        with _stop_on_sigterm() as stop_asked, reporting(job, group, environ) as report:
            step = 0
            for epoch in range(config.epochs):
                order = epoch_order(len(job.data), seed=config.seed, epoch=epoch, shuffle=config.shuffle)
                for step_of_epoch in range(job.steps_per_epoch):
                    step += 1
                    mine = step_rows(
                        order, step_of_epoch, job.rows_per_step, rank=group.rank, world_size=group.world_size
                    )
                    optimisation.begin()
                    for batch in batches(job.data, mine, config.batch_size, fill=job.padding_id, device=job.device):
                        loss = decoder.loss_sum(model, batch.tokens, batch.asked, batch.targets, run_layer=run_layer)
                        loss.backward()
                        optimisation.add(loss, targets=len(batch.targets), tokens=batch.token_count)
                    lr = job.schedule.at(step)
                    figures = optimisation.finish(lr, stop=stop_asked())
                    _check_finite(figures, step, job)
                    report(step, lr, figures)
                    if figures.must_stop and step < job.total_steps:
                        raise _stopped(model, step, job, group)

            # Write.
            if group.is_first:
                _save(model, job)
            group.wait()
    return f"trained {step} steps on {len(job.data)} rows, last loss {figures.loss:.4f}; see {config.output_dir}"


def _build(job: Derived) -> tuple[Any, list[torch.nn.Parameter]]:
    """Build the model with its weights; gives it and the parameters to train."""
    quantise = job.config.model is not None and job.config.model.quantize_base
    model = decoder.build(job.shape, max_seq_len=job.data.longest, lora=job.lora, device=job.device)
    base = job.config.checkpointer.checkpoint_dir
    weights.load(model, job.shape, base, device=job.device, dtype=job.dtype, quantise=quantise)
    model.train()
    if job.lora is None:
        return model, list(model.parameters())
    return model, lora.initialise(model, job.device, job.config.seed)


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


def _check_finite(figures: StepFigures, step: int, job: Derived) -> None:
    if math.isfinite(figures.loss) and math.isfinite(figures.grad_norm):
        return
    raise DivergedError(
        f"step {step} of {job.total_steps}: loss {figures.loss}, gradient norm {figures.grad_norm}; nothing was saved; "
        f"lower optimizer.lr (now {job.schedule.lr:g}) or set clip_grad_norm"
    )


def _stopped(model: Any, step: int, job: Derived, group: ProcessGroup) -> TransientError:
    """Save what there is when a process was told to stop; gives the error that says so."""
    saved = "a full fine-tune keeps nothing before its end"
    if job.config.model is not None:
        folder = job.config.output_dir / "checkpoints" / f"step-{step}"
        saved = f"the adapter so far is in {folder}"
        if group.is_first:
            output.save_adapter(model, job.config.model, job.config.checkpointer.checkpoint_dir, folder)
    return TransientError(f"SIGTERM: stopped after step {step} of {job.total_steps}; {saved}")


def _save(model: Any, job: Derived) -> None:
    base, folder = job.config.checkpointer.checkpoint_dir, job.config.output_dir
    if job.config.model is not None:
        output.save_adapter(model, job.config.model, base, folder / paths.ADAPTER)
        _log.info("adapter written to %s", folder / paths.ADAPTER)
    if job.config.save_merged:
        output.save_merged(model, job.shape, base, folder / paths.MERGED)
        _log.info("merged model written to %s", folder / paths.MERGED)
