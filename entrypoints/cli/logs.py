"""`trainyard logs`: what a job's containers wrote, all steps together or one, once or as it comes."""

import os
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from trainyard.entrypoints.cli.errors import BAD_INPUT, complain
from trainyard.entrypoints.cli.options import JobName, Namespace, StateDirectory, complete_step

_INTERVAL_SECONDS: Final = 0.2


def logs(
    name: JobName,
    step: Annotated[
        str | None,
        typer.Option(
            "--step",
            "-s",
            metavar="STEP",
            help="Only this step, such as node-0 or model-initializer.",
            autocompletion=complete_step,
        ),
    ] = None,
    container: Annotated[
        str | None, typer.Option("--container", "-c", metavar="NAME", help="Only this container of each pod.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job ends; waits for pods that are still to come.")
    ] = False,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="What was written before the container's last restart.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", min=0, help="Only the last N lines of each container.")
    ] = None,
    namespace: Namespace = None,
    state_dir: StateDirectory = None,
) -> None:
    """Print the logs of a job.

    Without --step the lines of all steps come together, each behind its step's name. One step's lines come as they
    were written. Ctrl-C ends the command, not the job.

    \b
    trainyard logs my-job -f
    trainyard logs my-job --step node-0 --tail 20
    """
    from trainyard.entrypoints.cli.state import find_job
    from trainyard.entrypoints.cli.terminal import Terminal
    from trainyard.entrypoints.cli.watch import Watcher

    if follow and previous:
        complain(["--follow and --previous: choose one; what was written before a restart grows no more"])
        raise typer.Exit(BAD_INPUT)
    watcher = Watcher(find_job(name, namespace, state_dir))
    known = watcher.steps()
    if step is not None and step not in [one.name for one in known]:
        complain([f"job {name!r} has no step {step!r}; it has {', '.join(one.name for one in known)}"])
        raise typer.Exit(BAD_INPUT)
    out = _Output(Terminal.of(sys.stdout, os.environ), prefixed=step is None)
    if follow:
        _follow(watcher, step, container, tail, out)
    else:
        _print(watcher, step, container, previous, tail, out)


class _Output:
    """Prints lines, behind their step's name where several steps speak."""

    def __init__(self, terminal: Any, *, prefixed: bool) -> None:
        self._terminal = terminal
        self._prefixed = prefixed

    def line(self, source: str, text: str) -> None:
        """Print one line."""
        from trainyard.entrypoints.cli.log_file import clean

        # A single step's output is passed on untouched: it may be meant for a terminal, or for another program.
        shown = f"{self._terminal.paint(f'{source} |', 'cyan')} {clean(text)}" if self._prefixed else text
        self._terminal.stream.write(f"{shown}\n")

    def flush(self) -> None:
        """Send off what was printed."""
        self._terminal.stream.flush()


def _chosen(steps: Sequence[Any], step: str | None) -> list[Any]:
    return [one for one in steps if step is None or one.name == step]


def _print(
    watcher: Any, step: str | None, container: str | None, previous: bool, tail: int | None, out: _Output
) -> None:
    from trainyard.entrypoints.cli.follow import sources
    from trainyard.entrypoints.cli.log_file import LogLines, interleave

    found = [source for one in _chosen(watcher.steps(), step) for source in sources(one, container)]
    if container is not None and not found:
        complain([f"no container {container!r} has been created yet"])
        raise typer.Exit(BAD_INPUT)
    written = [
        (source, LogLines(path=watcher.job.log_path(pod, name, previous), last=tail)) for source, pod, name in found
    ]
    for source, line in interleave(written):
        out.line(source, line)
    out.flush()


def _follow(watcher: Any, step: str | None, container: str | None, tail: int | None, out: _Output) -> None:
    from trainyard.entrypoints.cli.follow import Follower

    follower = Follower(watcher.job.log_path, last=tail)
    ended = False
    while not ended or follower.has_more:
        ended = watcher.job.is_finished()  # Before reading: all lines of a finished job are there.
        for line in follower.read(_chosen(watcher.steps(), step), container):
            out.line(line.source, line.text)
        out.flush()
        if not ended and not follower.has_more:
            time.sleep(_INTERVAL_SECONDS)
    for line in follower.close():
        out.line(line.source, line.text)
    out.flush()
