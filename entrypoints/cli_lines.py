"""A running job as plain lines: what each step says, and when it starts and ends. For pipes, logs of CI, `TERM=dumb`.

dataset-initializer: started
dataset-initializer | 2026-11-21T10:00:00Z INFO staged ...
dataset-initializer: succeeded after 1s
"""

from collections.abc import Sequence
from typing import Final

from trainyard.entrypoints.cli_follow import LogLine
from trainyard.entrypoints.cli_log_file import clean
from trainyard.entrypoints.cli_terminal import Terminal, duration
from trainyard.entrypoints.cli_view import FAILED, RUNNING, SUCCEEDED
from trainyard.entrypoints.cli_watch import Look, Watcher

_COLORS: Final = ("cyan", "yellow", "green", "magenta", "blue")


class LineView:
    """Prints what is new at each look."""

    def __init__(self, terminal: Terminal, *, several_jobs: bool) -> None:
        self._terminal = terminal
        self._several_jobs = several_jobs
        self._states: dict[tuple[str, str], tuple[str, int]] = {}
        self._colors: dict[str, str] = {}

    def show(self, watchers: Sequence[Watcher], looks: Sequence[Look]) -> None:
        """Print what happened since the look before."""
        for watcher, look in zip(watchers, looks, strict=True):
            self._show(watcher, look, look.lines)

    def close(self, watchers: Sequence[Watcher]) -> None:
        """Print unfinished last lines."""
        for watcher in watchers:
            self._say_lines(watcher, watcher.close())

    def _show(self, watcher: Watcher, look: Look, lines: Sequence[LogLine]) -> None:
        started, ended = [], []
        for step in look.steps:
            key = (watcher.job.name, step.name)
            before = self._states.get(key, ("", 0))
            self._states[key] = (step.state, step.restarts)
            if before == self._states[key]:
                continue
            again = f" again (try {step.restarts + 1})" if step.restarts else ""
            if (before[0] not in (RUNNING, SUCCEEDED, FAILED) and step.seconds(look.now) is not None) or (
                before[0] and step.restarts > before[1]
            ):
                started.append(f"{step.name}: started{again}")
            if step.state in (SUCCEEDED, FAILED):
                after = f" after {duration(step.seconds(look.now) or 0)}"
                failure = step.failure()
                why = f": {failure.to_text()}" if failure is not None else ""
                ended.append(f"{step.name}: {step.state.lower()}{after}{why}")
        self._say(watcher, started)
        self._say_lines(watcher, lines)
        self._say(watcher, ended)
        for warning in look.warnings:
            self._print(self._terminal.paint(f"{watcher.job.name}: {warning}", "yellow"))

    def _say(self, watcher: Watcher, lines: Sequence[str]) -> None:
        for line in lines:
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
