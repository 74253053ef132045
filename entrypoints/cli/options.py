"""The options that several commands share, written once, so that they mean and read the same everywhere."""

from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    """What `-o` accepts."""

    TABLE = "table"
    YAML = "yaml"
    JSON = "json"


class ObjectOutput(StrEnum):
    """What `-o` accepts where the result is objects."""

    YAML = "yaml"
    JSON = "json"


def complete_job(ctx: typer.Context, incomplete: str) -> list[str]:
    """Offer the jobs of the state directory to the shell."""
    from trainyard.entrypoints.cli.state import open_state

    try:
        jobs = open_state(ctx.params.get("state_dir")).jobs()
    except Exception:  # Completion must never print a traceback into a command line.
        return []
    return sorted({job.name for job in jobs if job.name.startswith(incomplete)})


def complete_step(ctx: typer.Context, incomplete: str) -> list[str]:
    """Offer the steps of the job that is named already to the shell."""
    from trainyard.entrypoints.cli.state import find_job
    from trainyard.entrypoints.cli.watch import Watcher

    try:
        job = find_job(ctx.params["name"], ctx.params.get("namespace"), ctx.params.get("state_dir"))
        return [step.name for step in Watcher(job).steps() if step.name.startswith(incomplete)]
    except Exception:
        return []


def complete_runtime(incomplete: str) -> list[str]:
    """Offer the shipped runtimes to the shell."""
    from trainyard.controller.runtimes import shipped_runtimes

    return sorted(name for name in shipped_runtimes() if name.startswith(incomplete))


Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="YAML or JSON files, folders of them, or - for standard input."),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change a field of every TrainJob read, such as spec.trainer.numNodes=2. Repeatable.",
    ),
]
RuntimePaths = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime",
        metavar="FILE|DIR",
        help="Read runtimes from here too, before the shipped ones. Repeatable.",
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option("-n", "--namespace", metavar="NAME", help="Namespace; where none is named it is 'default'."),
]
StateDirectory = Annotated[
    str | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        help="Where jobs keep their state. Default: trainyard in $XDG_STATE_HOME, else in ~/.local/state.",
    ),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Say only what went wrong.")]
JobName = Annotated[str, typer.Argument(metavar="NAME", help="The TrainJob's name.", autocompletion=complete_job)]

TableFormat = Annotated[
    Output, typer.Option("-o", "--output", metavar="FORMAT", help="How to print it: table, yaml or json.")
]
ObjectFormat = Annotated[
    ObjectOutput, typer.Option("-o", "--output", metavar="FORMAT", help="How to print it: yaml or json.")
]
JobNames = Annotated[
    list[str], typer.Argument(metavar="NAME", help="The TrainJobs' names.", autocompletion=complete_job)
]
