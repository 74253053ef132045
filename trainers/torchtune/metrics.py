"""metrics.jsonl: one JSON object a logged step, flushed at once: what was measured survives whatever happens."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any


@dataclass(frozen=True, kw_only=True, slots=True)
class StepMetrics:
    """One line of metrics.jsonl."""

    step: int
    """1, 2, ... over all epochs."""
    epoch: float
    """Passes over the data so far; 0.5 is half of the first."""
    loss: float
    """Mean cross-entropy of the step's targets, nats."""
    lr: float
    grad_norm: float
    """Before clipping."""
    tokens: int
    """Without padding, of all processes, since the line before."""
    tokens_per_second: float
    """The same by wall clock."""
    cpu_seconds: float
    """CPU time of the first process since its start, user and system."""
    peak_memory_bytes: int
    """Highest use so far: of the GPU, else of the process (resident)."""


class MetricsFile:
    """Writes metrics.jsonl, and remembers the losses for the picture."""

    def __init__(self, file: Path) -> None:
        self._file: IO[str] = file.open("w", encoding="utf-8")
        self.steps: list[int] = []
        self.losses: list[float] = []

    def write(self, metrics: StepMetrics) -> None:
        """Append a line; a figure that is no number becomes null, as JSON has no NaN."""
        plain: dict[str, Any] = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(metrics).items()
        }
        self._file.write(json.dumps(plain) + "\n")
        self._file.flush()
        if math.isfinite(metrics.loss):
            self.steps.append(metrics.step)
            self.losses.append(metrics.loss)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
