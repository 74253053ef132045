"""A running job as plain lines: what each step says, and when it starts and ends. For pipes, logs of CI, `TERM=dumb`.

dataset-initializer: started
dataset-initializer | 2026-11-21T10:00:00Z INFO staged ...
dataset-initializer: succeeded after 1s
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trainyard.entrypoints.cli.follow import LogLine
from trainyard.entrypoints.cli.log_file import clean
from trainyard.entrypoints.cli.steps import Step
from trainyard.entrypoints.cli.terminal import Terminal, duration
from trainyard.entrypoints.cli.view import FAILED, RUNNING, SUCCEEDED
from trainyard.entrypoints.cli.watch import Look, Watcher, how_to_resume

_COLORS: Final = ("cyan", "yellow", "green", "magenta", "blue")


class LineView:
    """Prints what is new at each look."""

    def __init__(self, terminal: Terminal, *, several_jobs: bool) -> None:
        self._terminal = terminal
        self._several_jobs = several_jobs
        self._states: dict[tuple[Path, str], tuple[str, int]] = {}
        self._colors: dict[str, str] = {}

    def show(self, watchers: Sequence[Watcher], looks: Sequence[Look]) -> None:
        """Print what happened since the look before."""
        for watcher, look in zip(watchers, looks, strict=True):
            for step in look.steps:
                start, end = self._changes(watcher, step, look)
                self._say(watcher, start)
                self._say_lines(watcher, [line for line in look.lines if line.step == step.name])
                self._say(watcher, end)
            for notice in (*look.warnings, *self._suspended(watcher, look)):
                self._print(self._terminal.paint(f"{watcher.job.name}: {notice}", "yellow"))

    def close(self, watchers: Sequence[Watcher]) -> None:
        """Print unfinished last lines."""
        for watcher in watchers:
            self._say_lines(watcher, watcher.close())

    def _suspended(self, watcher: Watcher, look: Look) -> list[str]:
        """Say how a job goes on that was suspended since the look before."""
        key = (watcher.job.folder, "")
        before, self._states[key] = self._states.get(key), (look.phase, 0)
        text = how_to_resume(watcher.job, look)
        return [text] if text and before != self._states[key] else []

    def _changes(self, watcher: Watcher, step: Step, look: Look) -> tuple[str, str]:
        """Say that a step started, or ended, since the look before; empty where it did not."""
        key = (watcher.job.folder, step.name)
        state_before, restarts_before = self._states.get(key, ("", 0))
        self._states[key] = (step.state, step.restarts)
        seconds = step.seconds(look.now)
        start = end = ""
        if seconds is not None and state_before not in (RUNNING, SUCCEEDED, FAILED):
            start = f"{step.name}: started"
        elif step.restarts > restarts_before:
            start = f"{step.name}: started again (try {step.restarts + 1})"
        if step.state in (SUCCEEDED, FAILED) and (step.state != state_before or start):
            failure = step.failure()
            why = f": {failure.to_text()}" if failure is not None else ""
            end = f"{step.name}: {step.state.lower()} after {duration(seconds or 0)}{why}"
        return start, end

    def _say(self, watcher: Watcher, line: str) -> None:
        if line:
            self._print(self._terminal.paint(self._prefix(watcher) + line, "bold"))

    def _say_lines(self, watcher: Watcher, lines: Sequence[LogLine]) -> None:
        for line in lines:
            color = self._colors.setdefault(line.source, _COLORS[len(self._colors) % len(_COLORS)])
            head = self._terminal.paint(f"{self._prefix(watcher)}{line.source} |", color)
            self._print(f"{head} {clean(line.text)}")

    def _prefix(self, watcher: Watcher) -> str:
        return f"{watcher.job.name}/" if self._several_jobs else ""

    def _print(self, line: str) -> None:
        self._terminal.print(line if self._terminal.unicode else line.encode("ascii", "backslashreplace").decode())
