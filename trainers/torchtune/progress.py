"""What a person sees while it trains: a line every few seconds, and the progress message."""

import logging
import time
from collections.abc import Mapping
from typing import Final

from trainyard.contract.progress import Progress, ProgressClient

LINE_EVERY_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class ProgressReport:
    """Tells how far the training is, by time and not by step. One process uses it, the others stay silent."""

    def __init__(self, total_steps: int, environ: Mapping[str, str]) -> None:
        self._total = total_steps
        self._client = ProgressClient(environ)
        self._began = time.monotonic()
        self._next_line = self._began

    def update(self, step: int, *, loss: float, lr: float, tokens_per_second: float) -> None:
        """Tell that `step` steps are done."""
        now = time.monotonic()
        is_last = step == self._total
        if now < self._next_line and not is_last:
            return
        self._next_line = now + LINE_EVERY_SECONDS
        remaining = round((now - self._began) / step * (self._total - step))
        _log.info(
            "step=%d/%d loss=%.4f lr=%.3g tokens/s=%.0f eta=%s",
            step, self._total, loss, lr, tokens_per_second, clock(remaining),
        )  # fmt: skip
        self._client.report(
            Progress(
                # 100 is for the end, when all is written.
                percent=min(99, 100 * step // self._total),
                remaining_seconds=remaining,
                metrics={
                    "step": f"{step}/{self._total}",
                    "loss": f"{loss:.4f}",
                    "lr": f"{lr:.3g}",
                    "tokens_per_second": f"{tokens_per_second:.0f}",
                },
            )
        )

    def done(self, loss: float) -> None:
        """Tell that everything is written, and stop."""
        self._client.report(
            Progress(
                percent=100,
                remaining_seconds=0,
                metrics={"step": f"{self._total}/{self._total}", "loss": f"{loss:.4f}"},
            )
        )
        self._client.close()

    def close(self) -> None:
        """Stop without having come to the end."""
        self._client.close()


def clock(seconds: int) -> str:
    """Write a time as people read it: 0:07, 12:30, 1:02:03."""
    minutes, rest = divmod(max(0, seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
