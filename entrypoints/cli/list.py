"""`trainyard list`: the jobs of the state directory, as a table for people or objects for programs."""

import os
import sys
from datetime import UTC, datetime
from typing import Any, Final

from trainyard.entrypoints.cli.options import Namespace, Output, StateDirectory, TableFormat

STATE_STYLES: Final = {
    "Complete": "green",
    "Succeeded": "green",
    "Running": "cyan",
    "Initializing": "cyan",
    "Failed": "red",
    "Suspended": "yellow",
}


def list_jobs(
    namespace: Namespace = None,
    state_dir: StateDirectory = None,
    output: TableFormat = Output.TABLE,
) -> None:
    """List the jobs of this machine, oldest first.

    Jobs of all namespaces unless one is named. The exit code is 0, also when there are none.

    \b
    trainyard list
    trainyard list -o json | jq -r '.items[] | select(.status.phase == "Failed") | .metadata.name'
    """
    from trainyard.entrypoints.cli.state import open_state

    state = open_state(state_dir)
    jobs = state.jobs(namespace)
    if output is not Output.TABLE:
        from trainyard.entrypoints.cli.yaml import write_objects

        write_objects([job.status() for job in jobs], output.value, always_list=True)
        return
    from trainyard.entrypoints.cli.table import format_table
    from trainyard.entrypoints.cli.terminal import Terminal

    terminal = Terminal.of(sys.stdout, os.environ)
    if not jobs:
        Terminal.of(sys.stderr, os.environ).print(f"no jobs in {state.path}")
        return
    rows = [_row(job) for job in jobs]
    headings = ["NAME", "NAMESPACE", "STATE", "STEPS", "RUNTIME", "AGE", "TOOK", "MESSAGE"]
    if len({job.namespace for job in jobs}) == 1:
        rows = [(row[0], *row[2:]) for row in rows]
        del headings[1]
    terminal.print(format_table(headings, rows, terminal, styles=STATE_STYLES))


def _row(job: Any) -> tuple[str, ...]:
    from trainyard.entrypoints.cli.steps import parse_time
    from trainyard.entrypoints.cli.terminal import duration

    train_job = job.status()
    status = train_job.get("status") or {}
    now = datetime.now(UTC)
    start, end = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    jobs = status.get("jobsStatus") or []
    done = sum(1 for one in jobs if one.get("succeeded") and not one.get("active") and not one.get("failed"))
    phase = str(status.get("phase", ""))
    return (
        job.name,
        job.namespace,
        phase,
        f"{done}/{len(jobs)}",
        str(train_job.get("spec", {}).get("runtimeRef", {}).get("name", "")),
        duration(now.timestamp() - job.created_at),
        "" if start is None else duration(((end or now) - start).total_seconds()),
        " ".join(str(status.get("message", "")).split()) if phase != "Complete" else "",
    )
