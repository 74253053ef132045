"""`trainyard run`: stage, train and show it, to the end; or start it in the background."""

import os
import sys
from typing import Annotated

import typer

from trainyard.entrypoints.cli.errors import BAD_INPUT, complain, outlived, warn
from trainyard.entrypoints.cli.options import (
    Files,
    Namespace,
    Output,
    Quiet,
    RuntimePaths,
    Sets,
    StateDirectory,
    TableFormat,
)


def run(
    files: Files,
    sets: Sets = None,
    runtime_paths: RuntimePaths = None,
    namespace: Namespace = None,
    secrets: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="NAME=DIR|FILE",
            help="Make a Secret of a folder with a file a key, or of a file of KEY=VALUE lines. Repeatable.",
        ),
    ] = None,
    devices: Annotated[
        str, typer.Option("--devices", metavar="KIND", help="Where to train: auto, cpu or cuda.")
    ] = "auto",
    images: Annotated[
        list[str] | None,
        typer.Option(
            "--image",
            metavar="IMAGE=COMMAND",
            help="Say what stands for an image here; IMAGE=python means this Python environment. Repeatable.",
        ),
    ] = None,
    isolation: Annotated[
        str | None,
        typer.Option(
            "--isolation",
            metavar="KIND",
            help="How /workspace becomes a folder: namespace or mapped. Default: what this machine permits.",
        ),
    ] = None,
    host_paths: Annotated[
        bool, typer.Option("--allow-host-paths", help="Let hostPath volumes reach this machine's folders.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("-d", "--detach", help="Run in the background; the job survives this terminal.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="First delete a job of the same name that has ended.")
    ] = False,
    state_dir: StateDirectory = None,
    output: TableFormat = Output.TABLE,
    quiet: Quiet = False,
) -> None:
    """Run TrainJobs on this machine.

    Shows one live view on a terminal, plain lines elsewhere, and at the end where the results are. Several
    TrainJobs run at once. Ctrl-C stops everything; a second Ctrl-C does so without waiting.

    The exit code is 0 when all jobs are Complete, 1 when one Failed, 2 when something is wrong with what was asked
    (then nothing was started), 130 after Ctrl-C.

    \b
    trainyard run job.yaml
    trainyard run job.yaml --set spec.trainer.numNodes=2 --secret hub=./token-folder
    trainyard run jobs/ --detach
    """
    from trainyard.entrypoints.cli.runner import Settings, prepare, run_all, start_all
    from trainyard.entrypoints.cli.terminal import Terminal

    jobs = prepare(
        files, sets=sets or (), runtime_paths=runtime_paths or (), namespace=namespace, secrets=secrets or ()
    )
    if not jobs:
        complain([f"no TrainJob in {', '.join(files)}"])
        raise typer.Exit(BAD_INPUT)
    settings = Settings(
        devices=devices,
        images=tuple(images or ()),
        isolation=isolation,
        allow_host_paths=host_paths,
        replace=replace,
        state_dir=state_dir,
        on_warning=(lambda _: None) if quiet else (lambda text: warn([text])),
    )
    # Objects on standard output are for programs; what people read goes to standard error then.
    stream = sys.stdout if output is Output.TABLE else sys.stderr
    terminal = Terminal.of(stream, os.environ)
    if detach:
        results = start_all(jobs, settings, terminal, quiet=quiet)
    else:
        results = run_all(jobs, settings, terminal, quiet=quiet)
    if output is not Output.TABLE:
        from trainyard.entrypoints.cli.yaml import write_objects

        with outlived(sys.stdout):
            write_objects([result.train_job for result in results], output.value)
    raise typer.Exit(max(result.exit_code for result in results))
