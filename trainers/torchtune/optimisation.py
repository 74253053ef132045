"""The optimizer's side of a step: gradients of all processes, clipping, AdamW, the learning rate.

The trained parameters lie in one flat tensor and so do their gradients, with room for the step's figures behind them:
a step needs one collective, one norm and one update, however many adapters there are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor, nn

from trainyard.trainers.torchtune.config import Config
from trainyard.trainers.torchtune.process_group import ProcessGroup

LORA_LR: Final = 3e-4
FULL_LR: Final = 2e-5
_WARMUP_AT_MOST: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The learning rate over the steps: a linear rise, then a cosine or a line down to zero, or none."""

    lr: float
    """The highest."""
    name: Literal["cosine", "linear", "constant"]
    warmup_steps: int
    total_steps: int

    @classmethod
    def of(cls, config: Config, total_steps: int) -> "Schedule":
        """Fill in what the configuration leaves open."""
        is_lora = config.method == "lora"
        name = config.lr_scheduler.name or ("cosine" if is_lora else "constant")
        open_choice = 0 if name == "constant" else min(_WARMUP_AT_MOST, total_steps // 10)
        warmup = config.lr_scheduler.num_warmup_steps
        return cls(
            lr=config.optimizer.lr or (LORA_LR if is_lora else FULL_LR),
            name=name,
            warmup_steps=open_choice if warmup is None else warmup,
            total_steps=total_steps,
        )

    def at(self, step: int) -> float:
        """Give the learning rate of step 1, 2, ... total_steps."""
        if step <= self.warmup_steps:
            return self.lr * step / self.warmup_steps
        if self.name == "constant":
            return self.lr
        # The last step still learns a little: the rate reaches zero one step after it.
        done = (step - 1 - self.warmup_steps) / max(1, self.total_steps - self.warmup_steps)
        return self.lr * ((1 - done) if self.name == "linear" else (1 + math.cos(math.pi * done)) / 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFigures:
    """What a step came to, over all processes."""

    loss: float
    """Mean cross-entropy of the targets; NaN when there was none."""
    grad_norm: float
    """Before clipping."""
    targets: int
    tokens: int
    """Without padding."""
    must_stop: bool
    """Whether some process was told to stop."""


class Optimisation:
    """Owns the trained parameters' values, gradients and AdamW state.

    One step: `begin`, backward passes of *summed* losses, `add` for their figures, `finish`.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], config: Config, group: ProcessGroup) -> None:
        self._group = group
        self._clip = config.clip_grad_norm
        first = parameters[0]
        self._size = sum(parameter.numel() for parameter in parameters)
        values = torch.empty(self._size, dtype=first.dtype, device=first.device)
        self._sums = torch.zeros(self._size + 4, dtype=first.dtype, device=first.device)
        place = 0
        for parameter in parameters:
            part = slice(place, place + parameter.numel())
            values[part].copy_(parameter.detach().reshape(-1))
            parameter.data = values[part].view_as(parameter)
            parameter.grad = self._sums[part].view_as(parameter)
            place = part.stop
        self._flat = nn.Parameter(values)
        self._flat.grad = self._sums[: self._size]
        # Sums of many steps' worth of tokens lose their last digits in bfloat16, so figures travel apart there.
        self._figures = (
            self._sums[self._size :] if first.dtype == torch.float32 else torch.zeros(4, device=first.device)
        )
        self._counts = [0, 0]
        self._adamw = torch.optim.AdamW(
            [self._flat],
            lr=0.0,
            betas=(config.optimizer.betas[0], config.optimizer.betas[1]),
            eps=config.optimizer.eps,
            weight_decay=config.optimizer.weight_decay,
            fused=first.device.type in ("cpu", "cuda"),
        )

    def begin(self) -> None:
        """Forget the last step's gradients."""
        self._sums.zero_()
        self._figures.zero_()
        self._counts = [0, 0]

    def add(self, loss_sum: Tensor, *, targets: int, tokens: int) -> None:
        """Add a backward pass' figures."""
        self._figures[0] += loss_sum.detach()
        self._counts[0] += targets
        self._counts[1] += tokens

    def finish(self, lr: float, *, stop: bool) -> StepFigures:
        """Average over the targets of all processes, clip, and update at this learning rate."""
        self._figures[1:] = torch.tensor([*self._counts, float(stop)])
        self._group.sum(self._sums)
        if self._figures.dtype != self._sums.dtype:
            self._group.sum(self._figures)
        gradient = self._sums[: self._size]
        loss_sum, targets, tokens, stops = self._figures.tolist()
        norm = float(torch.linalg.vector_norm(gradient, dtype=torch.float32)) / max(1.0, targets)
        factor = 1.0 / max(1.0, targets)
        if self._clip is not None and norm > self._clip:
            factor *= self._clip / norm
        gradient.mul_(factor)
        self._adamw.param_groups[0]["lr"] = lr
        self._adamw.step()
        return StepFigures(
            loss=loss_sum / targets if targets else math.nan,
            grad_norm=norm,
            targets=int(targets),
            tokens=int(tokens),
            must_stop=stops > 0,
        )
