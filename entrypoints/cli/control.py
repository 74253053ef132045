"""`trainyard stop`, `suspend`, `resume` and `delete`: what can be done to a job from outside."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from trainyard.entrypoints.cli.errors import BAD_INPUT, FAILED, complain
from trainyard.entrypoints.cli.options import JobName, JobNames, Namespace, Quiet, StateDirectory


def stop(name: JobName, namespace: Namespace = None, state_dir: StateDirectory = None, quiet: Quiet = False) -> None:
    """Stop a running job and keep what it wrote.

    As Ctrl-C does to a job in the foreground: SIGTERM to everything, SIGKILL after the grace period; a second stop
    ends it at once. Returns without waiting; the job is Failed then, with the reason Stopped.
    """
    _request("stop", name, namespace, state_dir, quiet)


def suspend(name: JobName, namespace: Namespace = None, state_dir: StateDirectory = None, quiet: Quiet = False) -> None:
    """End a job's pods until it is resumed; its volumes stay."""
    _request("suspend", name, namespace, state_dir, quiet)


def resume(name: JobName, namespace: Namespace = None, state_dir: StateDirectory = None, quiet: Quiet = False) -> None:
    """Start a suspended job's pods again."""
    _request("resume", name, namespace, state_dir, quiet)


_DONE = {"stop": "is stopping", "suspend": "is being suspended", "resume": "goes on"}


def _request(verb: str, name: str, namespace: str | None, state_dir: str | None, quiet: bool) -> None:
    from trainyard.entrypoints.cli.state import find_job

    job = find_job(name, namespace, state_dir)
    ask = {"stop": job.stop, "suspend": job.suspend, "resume": job.resume}[verb]
    # A finished job's process lives on for a moment and would take the request without acting on it.
    if job.is_finished() or not ask():
        if verb == "stop" and job.is_finished():
            return  # Nothing to do is no error.
        complain([f"{verb} {name}: nobody runs it; it is {job.status().get('status', {}).get('phase', 'unknown')}"])
        raise typer.Exit(FAILED)
    if not quiet:
        typer.echo(f"{name} {_DONE[verb]}")


def delete(
    names: JobNames,
    keep_output: Annotated[
        str | None,
        typer.Option("--keep-output", metavar="DIR", help="First move the job's output folder to DIR."),
    ] = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask whether a running job may be stopped.")] = False,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="A job that is not there is no error.")
    ] = False,
    namespace: Namespace = None,
    state_dir: StateDirectory = None,
    quiet: Quiet = False,
) -> None:
    """Stop jobs and remove them with their volumes, output and logs.

    On a terminal it asks before it stops a running job, or removes results. The exit code is 0 when all are gone, 2
    when there is no such job, 1 when you said no.
    """
    from trainyard.contract.errors import ConfigError
    from trainyard.entrypoints.cli.outcome import find_outcomes, move_outcomes
    from trainyard.entrypoints.cli.state import find_job

    jobs = []
    for name in dict.fromkeys(names):
        try:
            jobs.append(find_job(name, namespace, state_dir, any_remains=True))
        except ConfigError:
            if not ignore_not_found:
                raise
    for job in jobs:
        outcomes = find_outcomes(job.folder)
        running = job.is_alive() and not job.is_finished()
        if not yes and sys.stdin.isatty() and sys.stdout.isatty() and (running or (outcomes and keep_output is None)):
            what = "is running; stop and delete it" if running else f"has results in {outcomes[0].folder}; delete them"
            if not typer.confirm(f"{job.name} {what}?"):
                raise typer.Exit(FAILED)
        if keep_output is not None:
            if running:
                complain([f"{job.name} is running; `trainyard stop {job.name}` it before its output can be moved"])
                raise typer.Exit(BAD_INPUT)
            move_outcomes(outcomes, Path(keep_output))
        job.delete()
        if not quiet:
            typer.echo(f"{job.name} deleted" + (f"; its output is in {keep_output}" if keep_output else ""))
