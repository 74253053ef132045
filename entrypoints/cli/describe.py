"""`trainyard describe`: everything that is known of one job."""

import os
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from trainyard.entrypoints.cli.options import JobName, Namespace, Output, StateDirectory, TableFormat

_MOST_EVENTS: Final = 25


def describe(
    name: JobName,
    namespace: Namespace = None,
    state_dir: StateDirectory = None,
    output: TableFormat = Output.TABLE,
) -> None:
    """Show everything that is known of a job.

    Status, steps with containers and exit codes, events, results, what stands for its paths, names and ports on
    this machine, and its folders. With -o yaml or json: the TrainJob with its status, its pods and its events.
    """
    from trainyard.entrypoints.cli.state import find_job

    job = find_job(name, namespace, state_dir)
    if output is not Output.TABLE:
        from trainyard.entrypoints.cli.outcome import find_outcomes
        from trainyard.entrypoints.cli.yaml import write_objects

        local = {
            "folder": str(job.folder),
            "alive": job.is_alive(),
            "results": [
                {"folder": str(each.folder), **{what: str(path) for what, path in each.things}}
                for each in find_outcomes(job.folder)
            ],
            "pods": [{**pod, **job.substitutions(str(pod["name"]))} for pod in job.pods()],
            "events": job.events(),
        }
        write_objects([{**job.status(), "local": local}], output.value)
        return
    from trainyard.entrypoints.cli.terminal import Terminal

    terminal = Terminal.of(sys.stdout, os.environ)
    terminal.print("\n\n".join(part for part in _parts(job, terminal) if part))


def _parts(job: Any, terminal: Any) -> Iterator[str]:
    from trainyard.entrypoints.cli.outcome import find_outcomes
    from trainyard.entrypoints.cli.table import format_fields
    from trainyard.entrypoints.cli.watch import Watcher

    look = Watcher(job).glance()
    yield _head(job, look, terminal)
    yield _section("Conditions", _conditions(look.status, terminal), terminal)
    yield _section("Steps", _steps(look, terminal), terminal)
    for outcome in find_outcomes(job.folder):
        fields = [("folder", str(outcome.folder)), *((what, str(path)) for what, path in outcome.things)]
        yield _section("Results", format_fields(fields, terminal, indent=2), terminal)
    yield _section("On this machine", _machine(job, look, terminal), terminal)
    yield _section("Events", _events(job, terminal), terminal)


def _section(title: str, text: str, terminal: Any) -> str:
    return f"{terminal.paint(title, 'bold')}\n{text}" if text else ""


def _head(job: Any, look: Any, terminal: Any) -> str:
    from trainyard.entrypoints.cli.table import format_fields
    from trainyard.entrypoints.cli.terminal import duration

    supervisor = job.supervisor()
    running = f"process {supervisor.pid}" if supervisor is not None and job.is_alive() else "nobody: it has ended"
    reference = (look.train_job.get("spec") or {}).get("runtimeRef") or {}
    progress = look.status.get("trainerStatus") or {}
    metrics = ", ".join(f"{m.get('name')} {m.get('value')}" for m in progress.get("metrics") or ())
    percent = progress.get("progressPercentage")
    return format_fields(
        [
            ("Name", job.name),
            ("Namespace", job.namespace),
            ("Runtime", f"{reference.get('name')} ({reference.get('kind', 'ClusterTrainingRuntime')})"),
            ("State", look.phase),
            ("Message", str(look.status.get("message", ""))),
            ("Started", str(look.status.get("startTime", ""))),
            ("Ended", str(look.status.get("completionTime", ""))),
            ("Took" if look.is_finished else "Running for", duration(look.seconds)),
            ("Progress", ", ".join(part for part in ("" if percent is None else f"{percent} %", metrics) if part)),
            ("Run by", running),
            ("Folder", str(job.folder)),
            ("Damaged", ", ".join(job.damaged())),
        ],
        terminal,
    )


def _conditions(status: Mapping[str, Any], terminal: Any) -> str:
    from trainyard.entrypoints.cli.table import format_table

    fields = ("type", "status", "reason", "lastTransitionTime", "message")
    rows = [_indented(*(str(one.get(field, "")) for field in fields)) for one in status.get("conditions") or ()]
    headings = _indented("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE")
    return format_table(headings, rows, terminal, cut_last=False) if rows else ""


def _indented(first: str, *more: str) -> tuple[str, ...]:
    return (f"  {first}", *more)


def _steps(look: Any, terminal: Any) -> str:
    from trainyard.entrypoints.cli.list import STATE_STYLES
    from trainyard.entrypoints.cli.steps import to_view
    from trainyard.entrypoints.cli.table import format_table
    from trainyard.entrypoints.cli.terminal import duration

    rows = []
    for step in look.steps:
        view = to_view(step, look.now, look.progress(step))
        took = "" if view.seconds is None else duration(view.seconds)
        pod = "" if step.pod is None else str(step.pod["name"])
        rows.append((f"  {step.name}", view.state, "", str(view.restarts), took, view.note or pod))
        for container in step.containers:
            code = container.get("exitCode")
            rows.append(
                (
                    f"    {container['name']}",
                    str(container.get("state", "")).capitalize(),
                    "" if code is None else str(code),
                    str(container.get("restartCount", 0)),
                    "",
                    _said(container),
                )
            )
    headings = ("  STEP", "STATE", "CODE", "RESTARTS", "TOOK", "WHAT")
    return format_table(headings, rows, terminal, styles=STATE_STYLES, cut_last=False)


def _said(container: Mapping[str, Any]) -> str:
    """Say what a container left: its reason and its message; its process while it runs."""
    from trainyard.contract.termination import TerminationMessage

    if container.get("state") == "running":
        return f"process {container.get('pid')}"
    message = str(container.get("message", ""))
    ours = TerminationMessage.parse(message)
    if ours is not None:
        return f"{ours.reason}: {ours.message}"
    return ": ".join(part for part in (str(container.get("reason", "")), " ".join(message.split())) if part)


def _machine(job: Any, look: Any, terminal: Any) -> str:
    """Show what stands for the plan's paths, names and ports; what all containers share is shown once."""
    from trainyard.entrypoints.cli.table import format_fields

    notes = {step.name: job.substitutions(str(step.pod["name"])) for step in look.steps if step.pod is not None}
    addresses: dict[str, str] = {}
    ports: dict[str, str] = {}
    mounts: dict[str, list[str]] = {}
    isolation = ""
    for step, note in notes.items():
        isolation = isolation or str(note.get("isolation", ""))
        for container in (note.get("containers") or {}).values():
            addresses.update(container.get("addresses") or {})
            for port in container.get("ports") or ():
                ports[f"{port['hostname']}:{port['declared']}"] = str(port["actual"])
            for path in container.get("paths") or ():
                mode = " (read-only)" if path.get("readOnly") else ""
                shown = mounts.setdefault(f"{path['target']} {arrow(terminal)} {path['source']}{mode}", [])
                if step not in shown:
                    shown.append(step)
    paths = [f"{text}  [{', '.join(steps)}]" for text, steps in mounts.items()]
    return format_fields(
        [
            ("Isolation", isolation),
            ("Paths", "\n".join(paths)),
            ("Names", "\n".join(f"{name} {arrow(terminal)} {address}" for name, address in addresses.items())),
            ("Ports", "\n".join(f"{name} {arrow(terminal)} {port}" for name, port in ports.items())),
        ],
        terminal,
        indent=2,
    )


def arrow(terminal: Any) -> str:
    """Give an arrow that the terminal can show."""
    text: str = terminal.pick("→", "->")
    return text


def _events(job: Any, terminal: Any) -> str:
    from trainyard.entrypoints.cli.steps import parse_time
    from trainyard.entrypoints.cli.table import format_table
    from trainyard.entrypoints.cli.terminal import duration

    now = datetime.now(UTC)
    events = job.events()
    rows = []
    for event in events[-_MOST_EVENTS:]:
        when = parse_time(event.get("time"))
        age = "" if when is None else f"{duration((now - when).total_seconds())} ago"
        rows.append(_indented(age, *(str(event.get(field, "")) for field in ("type", "reason", "object", "message"))))
    if not rows:
        return ""
    table = format_table(
        ("  WHEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), rows, terminal, styles={"Warning": "yellow"}, cut_last=False
    )
    left_out = len(events) - len(rows)
    return table if left_out <= 0 else f"{table}\n  and {left_out} earlier ones in {job.folder / 'events.jsonl'}"
