"""Which rank failed first, and why: each failing rank leaves a record of its own.

torchrun turns every code into 1 and times failures in whole seconds, so a rank that merely lost its peer is often
blamed. Ranks of ours write one record each into `TRAINYARD_FAILURE_DIR`, with a clock in nanoseconds; the shim reads
them.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainyard.contract import env
from trainyard.contract.exit_codes import ExitCode
from trainyard.contract.termination import TerminationMessage

_RANK_NAMES: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
"""Where torchrun and Open MPI tell a process its global rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankFailure:
    """One rank's end."""

    rank: int
    """Global rank; -1 when unknown."""
    time_ns: int
    """Wall clock, nanoseconds since the epoch."""
    termination: TerminationMessage
    """Why it ended."""


def record(termination: TerminationMessage, environ: Mapping[str, str]) -> None:
    """Leave this rank's record, if a shim asked for it; never raises."""
    folder = environ.get(env.FAILURE_DIR)
    if not folder:
        return
    rank = next((environ[name] for name in _RANK_NAMES if environ.get(name)), "-1")
    text = json.dumps({"rank": rank, "time_ns": time.time_ns(), "termination": termination.to_json()})
    try:
        target = Path(folder, f"rank-{rank}-{os.getpid()}.json")
        partial = target.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError:
        return


def first(folder: Path) -> RankFailure | None:
    """Read the records of a folder and give the one to blame.

    The earliest permanent failure counts; a transient one (a lost peer, mostly a consequence) only when there is no
    other.
    """
    failures = []
    for file in sorted(folder.glob("rank-*.json")):
        try:
            raw = json.loads(file.read_text(encoding="utf-8"))
            termination = TerminationMessage.parse(raw["termination"])
            if termination is not None:
                failures.append(
                    RankFailure(rank=int(raw["rank"]), time_ns=int(raw["time_ns"]), termination=termination)
                )
        except (OSError, ValueError, KeyError, TypeError):
            continue
    failures.sort(key=lambda failure: (failure.termination.code == ExitCode.TRANSIENT, failure.time_ns))
    return failures[0] if failures else None
