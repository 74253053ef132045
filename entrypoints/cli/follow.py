"""New log lines of a running job, step by step: for the plain lines of `run`, its live view, and `logs -f`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard.entrypoints.cli.log_file import LogTail
from trainyard.entrypoints.cli.steps import Step

LogPath = Callable[[str, str], Path]
"""Gives the log file of (pod, container)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """One line that a container wrote."""

    source: str
    """`node-0`, or `node-0/sidecar` where the pod has several containers."""
    text: str
    """The line as it was written."""

    @property
    def step(self) -> str:
        """Name the step."""
        return self.source.partition("/")[0]


def sources(step: Step, container: str | None = None) -> list[tuple[str, str, str]]:
    """List a step's logs as (source, pod, container)."""
    if step.pod is None:
        return []
    named = [str(entry["name"]) for entry in step.containers]
    return [
        (step.name if len(named) == 1 else f"{step.name}/{name}", str(step.pod["name"]), name)
        for name in named
        if container is None or name == container
    ]


class Follower:
    """Reads what containers have written since the last look; logs of pods that appear later join in."""

    def __init__(self, log_path: LogPath, *, last: int | None = None) -> None:
        """Begin with what is there, or with the `last` lines of each log only."""
        self._log_path = log_path
        self._last = last
        self._tails: dict[tuple[str, str], tuple[str, LogTail]] = {}

    def read(self, steps: Sequence[Step], container: str | None = None) -> list[LogLine]:
        """Give the new whole lines of these steps, up to some megabytes of each log."""
        for step in steps:
            for source, pod, name in sources(step, container):
                if (pod, name) not in self._tails:
                    self._tails[pod, name] = (source, LogTail(self._log_path(pod, name), last=self._last))
        return [LogLine(source=source, text=text) for source, tail in self._tails.values() for text in tail.read()]

    @property
    def has_more(self) -> bool:
        """Say whether more was written than the last `read` gave."""
        return any(tail.has_more for _, tail in self._tails.values())

    def close(self) -> list[LogLine]:
        """Give what is left of unfinished lines, and stop."""
        return [LogLine(source=source, text=text) for source, tail in self._tails.values() for text in tail.close()]
