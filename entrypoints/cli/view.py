"""What a person wants to know of a running job, at one moment: values that the live view and the plain lines both show.

Collected by `cli_watch`, drawn by `cli_live` and `cli_lines`. Nothing here reads files or clocks.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

WAITING: Final = "Waiting"
"""Not created yet: it waits for another step, or the job is suspended."""
PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"

FINISHED: Final = ("Complete", "Failed")
"""Phases of a job that ends there."""
SUSPENDED: Final = "Suspended"

_BARS: Final = "▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = "_.-~=^*#"


@dataclass(frozen=True, kw_only=True, slots=True)
class StepView:
    """One pod of the job, or one that is still to come."""

    name: str
    """As the SDK names it: `dataset-initializer`, `node-0`."""
    state: str
    """One of the states above."""
    seconds: float | None = None
    """How long it has run, or ran; None before it starts."""
    percent: int | None = None
    """How much of its work is done, 0 to 100; None when it does not say."""
    remaining_seconds: int | None = None
    """Its own estimate of the time left."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """What it reports beside: bytes and files while it stages, loss and rate while it trains."""
    restarts: int = 0
    """How often it was started again."""
    note: str = ""
    """What it waits for, or how it ended: `exit code 66: the source does not exist`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobView:
    """One TrainJob."""

    name: str
    """The TrainJob's name."""
    phase: str
    """Queued, Initializing, Running, Suspended, Complete or Failed."""
    seconds: float
    """Time since it was started, or that it took."""
    steps: tuple[StepView, ...]
    """In the order in which they start."""
    losses: tuple[float, ...] = ()
    """Training loss, oldest first."""
    last_line: tuple[str, str] | None = None
    """The newest log line: (step, text)."""
    notice: str = ""
    """The newest warning of the executor."""


def sparkline(values: Sequence[float], width: int, *, unicode: bool = True) -> str:
    """Draw numbers as a row of small bars at most `width` wide; more numbers are averaged in groups."""
    values = [value for value in values if math.isfinite(value)]
    if not values or width < 1:
        return ""
    if len(values) > width:
        edges = [round(index * len(values) / width) for index in range(width + 1)]
        values = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, high = min(values), max(values)
    bars = _BARS if unicode else _ASCII_BARS
    scale = (len(bars) - 1) / (high - low) if high > low else 0.0
    return "".join(bars[round((value - low) * scale)] for value in values)
