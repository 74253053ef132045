"""`trainyard verify`: hash the files of a staged folder and compare them with its manifest."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from trainyard.entrypoints.cli.errors import BAD_INPUT, FAILED, complain
from trainyard.entrypoints.cli.options import Output, Quiet, TableFormat


def verify(
    folders: Annotated[list[str], typer.Argument(metavar="DIR", help="Folders that an initializer staged.")],
    output: TableFormat = Output.TABLE,
    quiet: Quiet = False,
) -> None:
    """Check staged folders against their manifests, byte for byte.

    Names every file that is missing or has other bytes. The exit code is 0 when all is right, 1 when a file is not,
    and 2 when a folder was not staged, or its manifest cannot be trusted.

    \b
    trainyard verify /workspace/model
    """
    from trainyard.contract.errors import TrainyardError
    from trainyard.entrypoints.cli.terminal import Terminal
    from trainyard.entrypoints.cli.yaml import write_objects
    from trainyard.storage.verify import verify as check

    terminal = Terminal.of(sys.stdout, os.environ)
    reports = []
    unusable = False
    for folder in folders:
        try:
            report = check(Path(folder))
        except TrainyardError as error:
            complain([str(error)])
            unusable = True
            continue
        reports.append(_as_dict(report))
        if output is Output.TABLE and not (quiet and report.ok):
            terminal.print(_text(report, terminal))
    if output is not Output.TABLE:
        write_objects([{"reports": reports}], output.value)
    if unusable:
        raise typer.Exit(BAD_INPUT)
    if not all(report["ok"] for report in reports):
        raise typer.Exit(FAILED)


def _text(report: Any, terminal: Any) -> str:
    revision = f" at {report.revision}" if report.revision else ""
    size = _size(report.size_bytes)
    if report.ok:
        word = terminal.paint(f"{terminal.pick('✓ ', '')}whole", "green")
    else:
        word = terminal.paint(f"{terminal.pick('✗ ', '')}damaged", "red", "bold")
    checked = f"{report.files} files, {size} of {report.source_uri}{revision}, checked in {report.seconds:.1f} s"
    lines = [f"{report.folder}: {word}: {checked}"]
    lines.extend(f"  {file}" for file in report.bad)
    lines.extend(f"  {path!r}: missing" for path in report.missing)
    if report.extra:
        lines.append(f"  beside them: {len(report.extra)} files that were not staged, such as {report.extra[0]!r}")
    if not report.ok:
        lines.append("  to try: delete the folder, or set REPLACE=true on the initializer, and run the job again")
    return "\n".join(lines)


def _as_dict(report: Any) -> dict[str, Any]:
    return {
        "folder": str(report.folder),
        "ok": report.ok,
        "sourceUri": report.source_uri,
        "revision": report.revision,
        "files": report.files,
        "sizeBytes": report.size_bytes,
        "bad": [{"path": file.path, "expected": file.expected, "found": file.found} for file in report.bad],
        "missing": list(report.missing),
        "extra": list(report.extra),
        "seconds": round(report.seconds, 3),
    }


def _size(size_bytes: int) -> str:
    """Say a number of bytes in a binary unit: `3.4 GiB`."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
