"""`trainyard render`: the objects that the controller would create, on standard output, and nothing else there."""

from typing import Any

import typer

from trainyard.entrypoints.cli.errors import BAD_INPUT, complain, warn
from trainyard.entrypoints.cli.options import Files, Namespace, ObjectFormat, ObjectOutput, Quiet, RuntimePaths, Sets


def render(
    files: Files,
    sets: Sets = None,
    runtime_paths: RuntimePaths = None,
    namespace: Namespace = None,
    output: ObjectFormat = ObjectOutput.YAML,
    quiet: Quiet = False,
) -> None:
    """Print the objects that the controller creates for each TrainJob.

    Nothing is applied or run. Warnings go to standard error. When a TrainJob is refused, nothing is printed on
    standard output, the reasons go to standard error, and the exit code is 2.

    \b
    trainyard render job.yaml
    trainyard render - --set spec.trainer.numNodes=4 < job.yaml
    trainyard render jobs/ --runtime my-runtimes/ -o json
    """
    from trainyard.contract.errors import TrainyardError
    from trainyard.contract.names import MANAGED_BY_SELF
    from trainyard.controller.discovery import default_plugins
    from trainyard.controller.plan import plan
    from trainyard.entrypoints.cli.load import problems_of, read_input
    from trainyard.entrypoints.cli.yaml import write_objects

    given = read_input(files, sets=sets or (), runtime_paths=runtime_paths or (), namespace=namespace)
    problems = list(given.problems)
    warnings: list[str] = []
    objects: list[dict[str, Any]] = []
    for request in given.requests:
        if request.runtime is None:
            continue
        try:
            planned = plan(request.train_job, request.runtime, plugins=default_plugins())
        except TrainyardError as error:
            problems.extend(problems_of(error))
            continue
        warnings.extend(f"{planned.name}: {warning}" for warning in planned.warnings)
        manager = request.train_job.spec.managed_by
        if manager == MANAGED_BY_SELF:
            objects.extend(planned.objects)
        else:
            warnings.append(
                f"{planned.name}: spec.managedBy leaves the job to {manager}; our controller creates nothing"
            )
    if not quiet:
        warn(warnings)
    if problems:
        complain([str(problem) for problem in dict.fromkeys(problems)])
        raise typer.Exit(BAD_INPUT)
    if not given.requests:
        complain([f"no TrainJob in {', '.join(files)}"])
        raise typer.Exit(BAD_INPUT)
    write_objects(objects, output.value, always_list=True)
