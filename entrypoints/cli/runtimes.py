"""`trainyard runtimes`: the runtimes that come with us, as a table or as YAML for `kubectl apply -f -`."""

import os
import sys
from typing import Annotated, Any

import typer

from trainyard.entrypoints.cli.errors import BAD_INPUT, complain
from trainyard.entrypoints.cli.options import Output, TableFormat, complete_runtime


def runtimes(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Only these runtimes.", autocompletion=complete_runtime),
    ] = None,
    output: TableFormat = Output.TABLE,
) -> None:
    """List the shipped runtimes, or print them.

    \b
    trainyard runtimes
    trainyard runtimes torch-distributed -o yaml | kubectl apply -f -
    """
    from trainyard.controller.runtimes import shipped_runtimes

    shipped = shipped_runtimes()
    unknown = [name for name in names or () if name not in shipped]
    if unknown:
        from trainyard.controller.api.problem import nearest

        known = f"; there are {', '.join(sorted(shipped))}"
        complain([f"no shipped runtime is called {name!r}{nearest(name, shipped) or known}" for name in unknown])
        raise typer.Exit(BAD_INPUT)
    chosen = [shipped[name] for name in (names or sorted(shipped))]
    if output is Output.TABLE:
        _table(chosen)
        return
    from trainyard.entrypoints.cli.yaml import write_objects

    write_objects([runtime.raw for runtime in chosen], output.value)


def _table(chosen: list[Any]) -> None:
    from trainyard.contract import labels
    from trainyard.entrypoints.cli.table import format_table
    from trainyard.entrypoints.cli.terminal import Terminal

    terminal = Terminal.of(sys.stdout, os.environ)
    rows = []
    for runtime in chosen:
        policy = runtime.spec.ml_policy
        rows.append(
            (
                runtime.name,
                runtime.metadata.labels.get(labels.FRAMEWORK, ""),
                str(1 if policy is None or policy.num_nodes is None else policy.num_nodes),
                runtime.metadata.annotations.get(labels.MODEL, ""),
                ", ".join(job["name"] for job in runtime.replicated_jobs),
            )
        )
    terminal.print(format_table(("NAME", "FRAMEWORK", "NODES", "MODEL", "JOBS"), rows, terminal))
