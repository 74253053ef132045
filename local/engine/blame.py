"""Which container to name when a job has failed: the cause, not one of its consequences.

When one rank dies, its peers lose it and die as well, often sooner as processes go. So: a permanent code of the
contract names its own cause and wins; a lost peer's way to end (75, SIGTERM) loses; among equals the earliest counts.
An unexpected exception (70) is no better than a program's own code: a lost peer can cause both.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from trainyard.contract.exit_codes import PERMANENT, ExitCode, describe
from trainyard.contract.termination import TerminationMessage, scrub

_NEAR_SECONDS: Final = 60.0
"""Failures later than this after the first one are other stories."""
_LONGEST_LINE: Final = 240
_TAIL_BYTES: Final = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerFailure:
    """A container that ended with a code other than 0, for finding whom to blame."""

    pod: str
    container: str
    replicated_job: str
    exit_code: int
    reason: str
    message: str
    time: datetime
    log_file: Path | None
    attempt: int


def find_cause(failures: Iterable[ContainerFailure]) -> ContainerFailure | None:
    """Choose the failure to blame; None when no container failed by itself."""
    ordered = sorted(failures, key=lambda failure: failure.time)
    if not ordered:
        return None
    near = [one for one in ordered if (one.time - ordered[0].time).total_seconds() <= _NEAR_SECONDS]
    return min(near, key=lambda failure: (_rank(failure.exit_code), failure.time))


def _rank(code: int) -> int:
    if code in PERMANENT and code != ExitCode.INTERNAL:
        return 0
    if code in (ExitCode.TRANSIENT, 143):
        return 2
    return 1


def sentence(failure: ContainerFailure) -> str:
    """Say in one line which container failed, with what code, what that means, and what it said."""
    said = TerminationMessage.parse(failure.message)
    if said is not None:
        words = f"{said.reason}: {said.message}" if said.message else said.reason
    else:
        words = failure.message.strip() or _last_line(failure.log_file)
    head = f"pod {failure.pod}, container {failure.container}: exit code {failure.exit_code}"
    meaning = "killed for lack of memory" if failure.reason == "OOMKilled" else describe(failure.exit_code)
    text = f"{head} ({meaning})"
    words = scrub(" ".join(words.split()))
    if len(words) > _LONGEST_LINE:
        words = words[: _LONGEST_LINE - 6] + " [...]"
    return f"{text}: {words}" if words else text


def _last_line(log: Path | None) -> str:
    """Read the last line of a log that says something; empty when there is none."""
    if log is None:
        return ""
    try:
        with log.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            lines = stream.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
