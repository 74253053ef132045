"""ttlSecondsAfterFinished: what is removed of a finished job when its time is over.

On a cluster the JobSet goes, with its pods and their logs; the TrainJob and its status stay. Here the same: pods' files
and logs go, status and events stay. A claim of the job's volumeClaimPolicies, where models and checkpoints lie, goes
only when the policy says `whenDeleted: Delete` in so many words; JobSet's default would delete it too. Nobody waits for
the moment: it is noticed by the next `run`, or at the end of the run itself when the time is 0.
"""

import json
from datetime import timedelta
from pathlib import Path
from typing import Final

from trainyard.local.engine import clock
from trainyard.local.engine.job_set_spec import JobSetSpec
from trainyard.local.store.job_folder import JobFolder, remove_tree

EXPIRY: Final = "expiry.json"
_GONE: Final = ("pods", "logs", "shims", "hosts")


def note_expiry(folder: JobFolder, spec: JobSetSpec) -> None:
    """Write down when a job that has just finished expires, if it does."""
    if spec.ttl_seconds is None:
        return
    when = clock.now() + timedelta(seconds=spec.ttl_seconds)
    claims = [claim for claim, is_deleted in spec.claims if is_deleted]
    try:
        folder.write_json(EXPIRY, {"after": clock.fine_stamp(when), "claims": claims})
    except OSError:
        return  # The disk is full; the job is complete all the same, and stays until it is deleted.
    expire(folder.path)


def expire(job: Path) -> bool:
    """Remove what has expired of a job's folder; False when nothing has."""
    note = job / EXPIRY
    try:
        raw = json.loads(note.read_text(encoding="utf-8"))
        if clock.parse_stamp(raw["after"]) > clock.now():
            return False
        for name in _GONE:
            remove_tree(job / name)
        for claim in raw["claims"]:
            remove_tree(job / "volumes" / claim)
        note.unlink()
    except (OSError, ValueError, KeyError):
        return False
    return True


def sweep(state_dir: Path) -> None:
    """Remove what has expired of all jobs."""
    for note in state_dir.glob(f"[!.]*/[!.]*/{EXPIRY}"):
        expire(note.parent)
