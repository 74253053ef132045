"""How an initializer tells that it lives: a line in the log every few seconds, and the progress message.

Progress is told by time, not by file: a staging of a second says one line, one of an hour says a line every five
seconds.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from trainyard.contract.progress import Progress, ProgressClient
from trainyard.storage.progress import Observer, StageProgress
from trainyard.storage.stage import StageReport

LINE_EVERY_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


@contextmanager
def reporting(
    what: str, environ: Mapping[str, str], *, clock: Callable[[], float] = time.monotonic
) -> Iterator[Observer]:
    """Give the observer of a staging; `what` is `dataset` or `model`."""
    client = ProgressClient(environ)
    next_line = clock() + LINE_EVERY_SECONDS

    def observe(progress: StageProgress) -> None:
        nonlocal next_line
        client.report(to_message(progress))
        if clock() >= next_line:
            next_line = clock() + LINE_EVERY_SECONDS
            _log.info("staging the %s: %s", what, to_line(progress))

    yield observe
    client.close()  # Only after success: a failing initializer waits for nobody.


def to_message(progress: StageProgress) -> Progress:
    """Make the progress message's content."""
    return Progress(
        percent=progress.percent,
        remaining_seconds=progress.remaining_seconds,
        metrics={
            "bytes": str(progress.bytes),
            "files": str(progress.files),
            "bytes_per_second": str(round(progress.bytes_per_second)),
        },
    )


def to_line(progress: StageProgress) -> str:
    """Make the log line's content."""
    total = "" if progress.bytes_total is None else f"/{size(progress.bytes_total)}"
    files_total = "" if progress.files_total is None else f"/{progress.files_total}"
    parts = [f"{size(progress.bytes)}{total}", f"files={progress.files}{files_total}"]
    if progress.percent is not None:
        parts.insert(0, f"{progress.percent} %")
    parts.append(f"rate={size(progress.bytes_per_second)}/s")
    if progress.remaining_seconds is not None:
        parts.append(f"remaining={progress.remaining_seconds}s")
    return " ".join(parts)


def summary(what: str, report: StageReport) -> str:
    """Say in one sentence what was done."""
    held = f"{report.files} {'file' if report.files == 1 else 'files'}, {size(report.size_bytes)}"
    if report.was_complete:
        return f"{what} is already staged: {held} in {str(report.destination)!r}"
    parts = [f"staged={report.staged_files}", f"kept={report.files - report.staged_files}"]
    if report.reflinked_files:
        parts.append(f"reflinked={report.reflinked_files}")
    if report.removed_files:
        parts.append(f"removed={report.removed_files}")
    return f"{what} staged: {held} in {str(report.destination)!r} {' '.join(parts)} seconds={report.seconds:.1f}"


def size(count: float) -> str:
    """Write a number of bytes for people: `1.5 GiB`."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count /= 1024
        unit += 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"
