"""The live view of `trainyard run` on a terminal: steps with state and time, progress bars, loss, the last log line.

`draw` is a pure function of views and terminal, so that it can be looked at in a test; `LiveView` redraws it in place.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from trainyard.entrypoints.cli.terminal import Terminal, duration
from trainyard.entrypoints.cli.view import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    WAITING,
    JobView,
    StepView,
    sparkline,
)
from trainyard.entrypoints.cli.watch import Look, Watcher

_MARKS: Final = {
    WAITING: ("○", "-"),
    PENDING: ("○", "-"),
    RUNNING: ("●", "*"),
    SUCCEEDED: ("✓", "+"),
    FAILED: ("✗", "x"),
}
_STYLES: Final = {
    WAITING: "dim",
    PENDING: "dim",
    RUNNING: "cyan",
    SUCCEEDED: "green",
    FAILED: "bold red",
    "Complete": "bold green",
    "Running": "bold cyan",
    "Failed": "bold red",
    "Suspended": "bold yellow",
    "Stopping": "bold yellow",
}
_NARROWEST_BAR: Final = 6
_WIDEST_BAR: Final = 24
_WIDEST_SPARKLINE: Final = 48
_WIDE: Final = 72
"""Columns from which on the state is spelled out beside its mark."""
_MOST_STEPS: Final = 16
"""Steps shown for one job; a 64-node job would push the terminal off its own screen."""


def draw(jobs: Sequence[JobView], terminal: Terminal) -> Group:
    """Lay out jobs below one another, fit for the terminal's width and characters."""
    lines: list[Text] = []
    for job in jobs:
        lines.append(_heading(job, terminal))
        lines.extend(_steps(job, terminal))
        lines.extend(_training(job, terminal))
        if job.notice:
            lines.append(Text(f"  {job.notice}", "yellow", no_wrap=True, overflow="ellipsis"))
        if job.last_line is not None:
            step, said = job.last_line
            line = _line(terminal)
            line.append(f"  {step} {terminal.pick('│', '|')} {_printable(said, terminal)}", "dim")
            lines.append(line)
    return Group(*lines)


def _heading(job: JobView, terminal: Terminal) -> Text:
    line = _line(terminal)
    line.append(job.name, "bold")
    line.append(f"  {job.phase}", _STYLES.get(job.phase, "bold"))
    line.append(f"  {duration(job.seconds)}")
    return line


def _steps(job: JobView, terminal: Terminal) -> list[Text]:
    steps = _chosen(job.steps)
    longest_name = max((len(step.name) for step in steps), default=0)
    lines = []
    for step in steps:
        style = _STYLES[step.state]
        line = _line(terminal)
        line.append(f"  {terminal.pick(*_MARKS[step.state])} ", style)
        line.append(step.name.ljust(longest_name))
        if terminal.width >= _WIDE:
            line.append(f"  {step.state:9}", style)
        line.append("  " + ("" if step.seconds is None else duration(step.seconds)).rjust(6) + "  ")
        line.append_text(_doing(step, terminal, terminal.width - line.cell_len))
        lines.append(line)
    if len(steps) < len(job.steps):
        lines.append(Text(f"    and {len(job.steps) - len(steps)} more", "dim"))
    return lines


def _line(terminal: Terminal) -> Text:
    return Text(no_wrap=True, overflow="ellipsis" if terminal.unicode else "crop")


def _chosen(steps: tuple[StepView, ...]) -> tuple[StepView, ...]:
    """Choose the steps that fit; failed ones are always among them."""
    if len(steps) <= _MOST_STEPS:
        return steps
    keep = {id(step) for step in (*[s for s in steps if s.state == FAILED], *steps)[:_MOST_STEPS]}
    return tuple(step for step in steps if id(step) in keep)


def _doing(step: StepView, terminal: Terminal, width: int) -> Text:
    """Say what a step does, or did; the bar takes what the words leave of the width."""
    text = Text()
    if step.percent is not None and step.state == RUNNING:
        text.append(f" {step.percent:3d} %")
        if step.remaining_seconds is not None:
            text.append(f"  {duration(step.remaining_seconds)} left", "dim")
        shown = [f"{name} {value}" for name, value in step.metrics.items() if name != "loss"]
        if shown:
            text.append(f"  {', '.join(shown[:3])}", "dim")
    elif step.note:
        text.append(step.note, _STYLES[FAILED] if step.state == FAILED else "dim")
    if step.restarts:
        text.append(f"  restarted {step.restarts} x", "yellow")
    if step.percent is not None and step.state == RUNNING:
        bar_width = max(_NARROWEST_BAR, min(_WIDEST_BAR, width - text.cell_len))
        text = _bar(step.percent, bar_width, terminal).append_text(text)
    return text


def _bar(percent: int, width: int, terminal: Terminal) -> Text:
    full = round(width * min(100, max(0, percent)) / 100)
    return Text.assemble(
        (terminal.pick("━", "#") * full, "cyan"),
        (terminal.pick("─", ".") * (width - full), "dim"),
    )


def _training(job: JobView, terminal: Terminal) -> list[Text]:
    if not job.losses:
        return []
    width = max(8, min(_WIDEST_SPARKLINE, terminal.width - 24))
    line = _line(terminal)
    line.append("  loss ")
    line.append(f"{job.losses[-1]:.4g}", "bold")
    line.append(f"  {sparkline(job.losses, width, unicode=terminal.unicode)}", "green")
    return [line]


def _printable(text: str, terminal: Terminal) -> str:
    """Take out what would move the cursor or cannot be shown."""
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if terminal.unicode else text.encode("ascii", "replace").decode()


class LiveView:
    """Redraws the jobs in place; the last picture stays."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        console = Console(
            file=terminal.stream,
            force_terminal=True,
            no_color=not terminal.color,
            legacy_windows=False,
            highlight=False,
        )
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._begun = False

    def show(self, watchers: Sequence[Watcher], looks: Sequence[Look]) -> None:
        """Draw the jobs as they are now."""
        if not self._begun:
            self._begun = True
            self._live.start()
        # A terminal may change its size at any moment.
        terminal = replace(self._terminal, width=self._live.console.width)
        views = [watcher.view(look) for watcher, look in zip(watchers, looks, strict=True)]
        self._live.update(draw(views, terminal), refresh=True)

    def close(self, watchers: Sequence[Watcher]) -> None:
        """Leave the last picture and give the cursor back."""
        for watcher in watchers:
            watcher.close()
        if self._begun:
            self._live.stop()
