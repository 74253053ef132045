"""The picture of the live view, on wide, narrow and plain terminals."""

import io
import math

import pytest
from rich.console import Console

from trainyard.entrypoints.cli.live import draw
from trainyard.entrypoints.cli.terminal import Terminal
from trainyard.entrypoints.cli.view import FAILED, RUNNING, SUCCEEDED, WAITING, JobView, StepView, sparkline

TRAINING = JobView(
    name="tiny-lora",
    phase="Running",
    seconds=83,
    steps=(
        StepView(name="dataset-initializer", state=SUCCEEDED, seconds=1.2),
        StepView(name="model-initializer", state=RUNNING, seconds=12, percent=50, metrics={"rate": "9 MiB/s"}),
        StepView(name="node-0", state=WAITING, note="waits for model-initializer"),
    ),
    losses=tuple(3 * math.exp(-step / 30) for step in range(100)),
    last_line=("model-initializer", "\x1b[2Jstaged é " + "x" * 200),
)


def picture(job: JobView, *, width: int = 100, unicode: bool = True, color: bool = False) -> list[str]:
    stream = io.StringIO()
    terminal = Terminal(stream=stream, interactive=True, color=color, unicode=unicode, width=width)
    console = Console(file=stream, width=width, force_terminal=color, no_color=not color, highlight=False)
    console.print(draw([job], terminal))
    return stream.getvalue().splitlines()


def test_steps_show_state_time_progress_and_what_they_wait_for() -> None:
    assert [line.rstrip() for line in picture(TRAINING)[:5]] == [
        "tiny-lora  Running  1m23s",
        "  ✓ dataset-initializer  Succeeded      1s",
        "  ● model-initializer    Running       12s  ━━━━━━━━━━━━────────────  50 %  rate 9 MiB/s",
        "  ○ node-0               Waiting            waits for model-initializer",
        "  loss 0.1106  ██▇▇▆▆▆▅▅▅▄▄▄▄▃▃▃▃▃▃▃▂▂▂▂▂▂▂▂▂▂▂▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁",
    ]


@pytest.mark.parametrize("width", [100, 60, 30])
@pytest.mark.parametrize("unicode", [True, False], ids=["unicode", "ascii"])
def test_no_line_is_wider_than_the_terminal_or_says_what_it_cannot(width: int, unicode: bool) -> None:
    lines = picture(TRAINING, width=width, unicode=unicode)
    assert len(lines) == 6
    assert all(len(line) <= width for line in lines)
    assert "\x1b" not in "".join(lines)
    assert unicode or "".join(lines).isascii()


def test_colours_come_only_when_wanted() -> None:
    assert "\x1b[36m" in "\n".join(picture(TRAINING, color=True))
    assert "\x1b[" not in "\n".join(picture(TRAINING))


def test_many_steps_are_cut_and_the_failed_one_is_kept() -> None:
    steps = tuple(StepView(name=f"node-{rank}", state=FAILED if rank == 60 else RUNNING) for rank in range(64))
    lines = picture(JobView(name="wide", phase="Running", seconds=1, steps=steps))
    assert len(lines) == 18
    assert any("✗ node-60" in line for line in lines)
    assert lines[-1].strip() == "and 48 more"


def test_sparklines_fall_as_the_loss_falls() -> None:
    assert sparkline([4, 3, 2, 1], 10) == "█▆▃▁"
    assert sparkline([4, 3, 2, 1], 2) == "█▁"
    assert sparkline([1, 1], 10) == "▁▁"
    assert sparkline([2, 1], 10, unicode=False) == "#_"
    assert sparkline([], 10) == ""
    assert sparkline([math.nan, 1, 2], 10) == "▁█"
