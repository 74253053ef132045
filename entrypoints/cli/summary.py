"""The last words of `trainyard run`: where the results are, or what failed, the end of its log, and what to try."""

from collections.abc import Iterable
from typing import Final

from trainyard.contract import names
from trainyard.entrypoints.cli.advice import advice
from trainyard.entrypoints.cli.log_file import clean, read_lines
from trainyard.entrypoints.cli.outcome import Outcome, find_outcomes
from trainyard.entrypoints.cli.state import command_for
from trainyard.entrypoints.cli.steps import Failure, Step
from trainyard.entrypoints.cli.table import format_fields
from trainyard.entrypoints.cli.terminal import Terminal, cut, duration
from trainyard.entrypoints.cli.view import sparkline
from trainyard.entrypoints.cli.watch import Look
from trainyard.local.engine.blame import ContainerFailure, find_cause
from trainyard.local.engine.status import REASON_STATE_DAMAGED, REASON_STOPPED, REASON_SUPERVISOR_DIED
from trainyard.local.store.state import JobState

_LOG_LINES: Final = 12
_NOBODY_FAILED: Final = (REASON_STOPPED, REASON_SUPERVISOR_DIED, REASON_STATE_DAMAGED, names.REASON_DEADLINE_EXCEEDED)
"""Reasons of a job's end that lie outside of its containers: these were ended, their logs tell nothing."""


def summarize(job: JobState, look: Look, terminal: Terminal) -> str:
    """Tell how a job ended, in a few lines."""
    complete = look.phase == "Complete"
    mark = terminal.pick("✓ ", "") if complete else terminal.pick("✗ ", "")
    style = "green" if complete else "red"
    head = f"{terminal.paint(f'{mark}{job.name}', style, 'bold')}  {terminal.paint(look.phase, style)}"
    lines = [f"{head}  {duration(look.seconds)}"]
    if not complete:
        lines.extend(_failed(job, look, terminal))
    outcomes = find_outcomes(job.folder)
    for outcome in outcomes:
        if len(outcomes) > 1:
            lines.append(terminal.paint(f"  {outcome.folder.relative_to(job.folder)}", "bold"))
        lines.append(_results(outcome, terminal))
    if complete and not outcomes:
        lines.append(format_fields([("log", command_for(job, "logs"))], terminal, indent=2))
    return "\n".join(lines)


def _results(outcome: Outcome, terminal: Terminal) -> str:
    fields = []
    if outcome.losses:
        picture = sparkline(outcome.losses, 32, unicode=terminal.unicode)
        fields.append(("final loss", f"{outcome.losses[-1]:.4g} (first {outcome.losses[0]:.4g})  {picture}"))
    fields.extend((what, str(path)) for what, path in outcome.things)
    return format_fields(fields or [("output", str(outcome.folder))], terminal, indent=2)


def _failed(job: JobState, look: Look, terminal: Terminal) -> Iterable[str]:
    failure = None if look.reason in _NOBODY_FAILED else blame(look.steps)
    message = str(look.status.get("message", "")) or "failed"
    again = ("run again", "the same command with --replace")
    if failure is None or failure.container is None:
        yield f"  {message}"
        yield format_fields([("look closer", command_for(job, "describe")), again], terminal, indent=2)
        return
    where = failure.step if failure.container in ("node", failure.step) else f"{failure.step}/{failure.container}"
    yield f"  {where}, container {failure.container}: {failure.to_text()}"
    if failure.pod not in message:
        yield f"  {message}"
    log = job.log_path(failure.pod, failure.container)
    last = [clean(line) for line in read_lines(log, last=_LOG_LINES)]
    if last:
        yield terminal.paint(f"  last lines of its log, {log}:", "dim")
        yield from (f"    {terminal.pick('│', '|')} {cut(line, 400)}" for line in last)
    step = ("--step", failure.step)
    yield format_fields(
        [
            ("to try", advice(failure.exit_code)),
            ("look closer", f"{command_for(job, 'describe')}\n{command_for(job, 'logs', *step)}"),
            again,
        ],
        terminal,
        indent=2,
    )


def blame(steps: Iterable[Step]) -> Failure | None:
    """Choose the failed container that caused the others, by the executor's own rule."""
    failures = [failure for step in steps if (failure := step.failure()) is not None]
    by_name = {(failure.pod, failure.container): failure for failure in failures}
    cause = find_cause(
        ContainerFailure(
            pod=failure.pod,
            container=failure.container,
            replicated_job="",
            exit_code=failure.exit_code or 0,
            reason=failure.reason,
            message=failure.message,
            time=failure.time,
            log_file=None,
            attempt=0,
        )
        for failure in failures
        if failure.container is not None and failure.time is not None
    )
    if cause is not None:
        return by_name[cause.pod, cause.container]
    return failures[0] if failures else None


def started(job: JobState, terminal: Terminal) -> str:
    """Say how to follow a job that was started in the background."""
    supervisor = job.supervisor()
    pid = "" if supervisor is None else f", process {supervisor.pid}"
    fields = [
        ("follow", f"{command_for(job, 'logs')} -f"),
        ("wait", command_for(job, "wait")),
        ("look", command_for(job, "describe")),
        ("stop", command_for(job, "stop")),
        ("state", str(job.folder)),
    ]
    head = f"{terminal.paint(job.name, 'bold')} started in the background{pid}"
    return f"{head}\n{format_fields(fields, terminal, indent=2)}"
