"""loss.png: the loss over the steps, as measured and smoothed."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def smooth(values: Sequence[float], window: int) -> np.ndarray:
    """Average each value with its neighbours, `window` of them, fewer at both ends: [len(values)]."""
    sums = np.concatenate(([0.0], np.cumsum(values)))
    places = np.arange(len(values))
    low, high = np.maximum(0, places - window // 2), np.minimum(len(values), places + window // 2 + 1)
    return np.asarray((sums[high] - sums[low]) / (high - low))


def draw(steps: Sequence[int], losses: Sequence[float], title: str, file: Path) -> None:
    """Draw the picture and replace `file` with it; does nothing before the second step."""
    if len(steps) < 2:
        return
    # Imported here: 0.5 s that only rank 0 needs. The figure is drawn without pyplot, which keeps a window system out.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    # It logs at INFO that it looks for fonts; that is nobody's business here.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    window = max(3, len(losses) // 20)
    axes.plot(steps, losses, color="#9ab8d8", linewidth=0.8, label="each step")
    axes.plot(steps, smooth(losses, window), color="#1f4e8c", linewidth=1.8, label=f"mean of {window} steps")
    axes.set(title=title, xlabel="step", ylabel="loss (nats per token)", xlim=(steps[0], steps[-1]))
    axes.set_ylim(0, 1.05 * max(losses))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    partial = file.with_suffix(".partial.png")
    figure.savefig(partial)
    partial.replace(file)
