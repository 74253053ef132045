"""Shows running jobs from a thread of its own, while the main thread runs them."""

import os
import sys
import threading
from collections.abc import Sequence
from typing import Final, Protocol

from trainyard.entrypoints.cli.errors import DEBUG
from trainyard.entrypoints.cli.lines import LineView
from trainyard.entrypoints.cli.terminal import Terminal
from trainyard.entrypoints.cli.watch import Look, Watcher
from trainyard.local.store.state import JobState

_INTERVAL_SECONDS: Final = 0.2


class View(Protocol):
    """A way to show jobs."""

    def show(self, watchers: Sequence[Watcher], looks: Sequence[Look]) -> None:
        """Show what is new."""

    def close(self, watchers: Sequence[Watcher]) -> None:
        """Show what is left."""


class Viewer:
    """Looks at jobs five times a second and shows them; a fault in showing never reaches the jobs."""

    def __init__(self, jobs: Sequence[JobState], view: View) -> None:
        self._watchers = [Watcher(job) for job in jobs]
        self._view = view
        self._begun = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="view", daemon=True)

    def begin(self) -> None:
        """Begin to show; the folders of all jobs must be there. Harmless when it has begun."""
        if not self._begun:
            self._begun = True
            self._thread.start()

    def end(self) -> None:
        """Look a last time and end, if it has begun."""
        self._stop.set()
        if self._begun:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0 if self._is_behind() else _INTERVAL_SECONDS):
                self._show()
            self._show()
            while self._is_behind():
                self._show()
            self._view.close(self._watchers)
        except OSError:
            return  # Nobody reads any more, or the terminal has gone; the job goes on.
        except Exception as error:
            if os.environ.get(DEBUG):
                raise
            sys.stderr.write(f"warning: the view ended, the job goes on: {type(error).__name__}: {error}\n")

    def _is_behind(self) -> bool:
        return any(watcher.is_behind for watcher in self._watchers)

    def _show(self) -> None:
        self._view.show(self._watchers, [watcher.look() for watcher in self._watchers])


def choose_view(terminal: Terminal, *, several_jobs: bool) -> View:
    """Choose the live view for a terminal, plain lines for anything else."""
    if not terminal.interactive:
        return LineView(terminal, several_jobs=several_jobs)
    from trainyard.entrypoints.cli.live import LiveView

    return LiveView(terminal)
