"""`trainyard lint`: every error and warning of TrainJobs and runtimes, by the code that admission runs."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from trainyard.entrypoints.cli.errors import BAD_INPUT, complain
from trainyard.entrypoints.cli.options import Files, Namespace, Quiet, RuntimePaths, Sets


class Report(StrEnum):
    """What `lint -o` accepts."""

    TEXT = "text"
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


_STYLES: Final = {"error": "red", "warning": "yellow"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One line of the report."""

    severity: str
    """`error` or `warning`."""
    place: str
    """`job.yaml:12`; the TrainJob's name where no line is known."""
    path: str
    """The field; empty where the whole object is meant."""
    message: str
    """The sentence."""

    def to_text(self) -> str:
        """Write it as compilers do: `job.yaml:12: error: spec.trainer.numNodes: ...`."""
        return ": ".join(part for part in (self.place, self.severity, self.path, self.message) if part)


def lint(
    files: Files,
    sets: Sets = None,
    runtime_paths: RuntimePaths = None,
    namespace: Namespace = None,
    output: Annotated[
        Report, typer.Option("-o", "--output", metavar="FORMAT", help="How to print it: text, table, yaml or json.")
    ] = Report.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as errors.")] = False,
    quiet: Quiet = False,
) -> None:
    """Check TrainJobs and runtimes as the cluster's admission does.

    Prints every error and warning with its place. The exit code is 2 when there is an error, else 0.

    \b
    trainyard lint jobs/
    trainyard lint job.yaml -o json
    """
    from trainyard.entrypoints.cli.load import read_input

    given = read_input(files, sets=sets or (), runtime_paths=runtime_paths or (), namespace=namespace)
    if not (given.requests or given.runtimes or given.problems):
        complain([f"no TrainJob and no runtime in {', '.join(files)}"])
        raise typer.Exit(BAD_INPUT)
    findings = _check(given)
    errors = [finding for finding in findings if finding.severity == "error"]
    _write(findings, output, summary=_summary(given, findings), quiet=quiet)
    if errors or (strict and findings):
        raise typer.Exit(BAD_INPUT)


def _check(given: Any) -> list[Finding]:
    from trainyard.controller import lint as rules
    from trainyard.controller.discovery import default_plugins

    findings = [_error(problem) for problem in given.problems]
    checked = [(runtime, rules.lint_runtime(runtime)) for runtime in given.runtimes]
    checked += [
        (request.train_job, rules.lint(request.train_job, request.runtime, plugins=default_plugins()))
        for request in given.requests
    ]
    for subject, found in checked:
        findings.extend(_error(problem) for problem in found.errors)
        findings.extend(
            Finding(severity="warning", place=subject.problem("", "").place, path="", message=warning)
            for warning in found.warnings
        )
    return list(dict.fromkeys(findings))


def _error(problem: Any) -> Finding:
    return Finding(severity="error", place=problem.place, path=problem.path, message=problem.message)


def _summary(given: Any, findings: Sequence[Finding]) -> str:
    counts = [
        f"{number} {word}{'' if number == 1 else 's'}"
        for word, number in (
            ("TrainJob", len(given.requests)),
            ("runtime", len(given.runtimes)),
            ("error", sum(finding.severity == "error" for finding in findings)),
            ("warning", sum(finding.severity == "warning" for finding in findings)),
        )
    ]
    return f"{counts[0]} and {counts[1]} read: {counts[2]}, {counts[3]}"


def _write(findings: Sequence[Finding], output: Report, *, summary: str, quiet: bool) -> None:
    from trainyard.entrypoints.cli.terminal import Terminal

    terminal = Terminal.of(sys.stdout, os.environ)
    if output in (Report.JSON, Report.YAML):
        items = [{"severity": f.severity, "place": f.place, "path": f.path, "message": f.message} for f in findings]
        if output is Report.JSON:
            import json

            terminal.print(json.dumps({"findings": items}, indent=2, ensure_ascii=False))
        else:
            from trainyard.entrypoints.cli.yaml import to_yaml

            terminal.stream.write(to_yaml([{"findings": items}]))
        return
    shown = [finding for finding in findings if finding.severity == "error" or not quiet]
    if output is Report.TABLE:
        from trainyard.entrypoints.cli.table import format_table

        rows = [(f.severity, f.place, f.path, f.message) for f in shown]
        if rows:
            terminal.print(
                format_table(("SEVERITY", "PLACE", "FIELD", "MESSAGE"), rows, terminal, styles=_STYLES, cut_last=False)
            )
    else:
        for finding in shown:
            marked = finding.to_text().replace(
                f"{finding.severity}:", terminal.paint(f"{finding.severity}:", _STYLES[finding.severity], "bold"), 1
            )
            terminal.print(marked)
    if not quiet:
        terminal.print(summary)
