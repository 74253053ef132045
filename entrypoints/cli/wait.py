"""`trainyard wait`: until a job is in a state, with exit codes for scripts."""

import os
import sys
import time
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from trainyard.entrypoints.cli.errors import BAD_INPUT, FAILED, TIMED_OUT, complain
from trainyard.entrypoints.cli.options import JobName, Namespace, Quiet, StateDirectory

_INTERVAL_SECONDS: Final = 0.2
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class State(StrEnum):
    """What `--for` accepts."""

    COMPLETE = "complete"
    FAILED = "failed"
    FINISHED = "finished"
    RUNNING = "running"
    SUSPENDED = "suspended"


_PHASES: Final = {
    State.COMPLETE: ("Complete",),
    State.FAILED: ("Failed",),
    State.FINISHED: ("Complete", "Failed"),
    State.RUNNING: ("Running", "Complete", "Failed"),
    State.SUSPENDED: ("Suspended",),
}


def wait(
    name: JobName,
    state: Annotated[
        State,
        typer.Option(
            "--for", metavar="STATE", help="complete, failed, finished (either), running (or past it), suspended."
        ),
    ] = State.COMPLETE,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="Give up after 90, 90s, 5m, 2h. Default: never.")
    ] = None,
    namespace: Namespace = None,
    state_dir: StateDirectory = None,
    quiet: Quiet = False,
) -> None:
    """Wait until a job is in a state.

    The exit code is 0 when it is, 1 when it ended otherwise and never will be, 124 when the time ran out, and 2 when
    there is no such job.

    \b
    trainyard wait my-job --timeout 10m && echo trained
    """
    from trainyard.entrypoints.cli.state import find_job
    from trainyard.entrypoints.cli.terminal import Terminal

    seconds = None if timeout is None else _seconds(timeout)
    job = find_job(name, namespace, state_dir)
    began = time.monotonic()
    while True:
        train_job = job.status()
        if not job.folder.exists():
            complain([f"job {name!r} was deleted while it was waited for"])
            raise typer.Exit(FAILED)
        phase = _phase(train_job)
        if phase in _PHASES[state]:
            if not quiet:
                Terminal.of(sys.stdout, os.environ).print(f"{name}: {phase}")
            return
        if phase in _PHASES[State.FINISHED]:
            message = str(train_job.get("status", {}).get("message", ""))
            complain([f"{name} is {phase}, not {state.value}{f': {message}' if phase == 'Failed' else ''}"])
            raise typer.Exit(FAILED)
        if seconds is not None and time.monotonic() - began >= seconds:
            complain([f"{name} is {phase} after {timeout}, not {state.value}"])
            raise typer.Exit(TIMED_OUT)
        time.sleep(_INTERVAL_SECONDS)


def _phase(train_job: dict[str, Any]) -> str:
    return str((train_job.get("status") or {}).get("phase", "Queued"))


def _seconds(text: str) -> float:
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        complain([f"--timeout: expected a time such as 90, 90s, 5m or 2h, got {text!r}"])
        raise typer.Exit(BAD_INPUT)
    return seconds
