"""The command `trainyard`: its sub-commands in the order that the help shows.

Importing this file must stay cheap: each command imports what it needs when it is called.
"""

import os
import sys
from collections.abc import Callable
from typing import Annotated, Final

import typer

from trainyard.entrypoints.cli.control import delete, resume, stop, suspend
from trainyard.entrypoints.cli.describe import describe
from trainyard.entrypoints.cli.errors import guarded
from trainyard.entrypoints.cli.lint import lint
from trainyard.entrypoints.cli.list import list_jobs
from trainyard.entrypoints.cli.logs import logs
from trainyard.entrypoints.cli.render import render
from trainyard.entrypoints.cli.run import run
from trainyard.entrypoints.cli.runtimes import runtimes
from trainyard.entrypoints.cli.verify import verify
from trainyard.entrypoints.cli.wait import wait

# Rich help pages would import rich for every --help: twice the time.
app = typer.Typer(
    name="trainyard",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"trainyard {version('trainyard')}")
        raise typer.Exit


@app.callback(
    epilog="Jobs are TrainJob YAML as for a cluster: the same file, the same names, the same output. "
    "Exit codes: 0 done, 1 the job failed, 2 bad input, 124 time ran out, 130 Ctrl-C."
)
def _trainyard(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Run Kubernetes TrainJobs on this machine, and look at what a cluster would make of them."""


_COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "run": run,
    "list": list_jobs,
    "describe": describe,
    "logs": logs,
    "wait": wait,
    "stop": stop,
    "suspend": suspend,
    "resume": resume,
    "delete": delete,
    "render": render,
    "lint": lint,
    "runtimes": runtimes,
    "verify": verify,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(guarded(_command))


def main() -> None:
    """Run the command line and exit."""
    # A stream that the caller has closed is None; what is said there goes nowhere.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A log line in another script must not end a command in an ASCII locale.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    app(prog_name="trainyard")
