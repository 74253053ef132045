"""What a finished job leaves: where adapter, metrics and picture are, the last loss, and the folder they are in."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainyard.contract import paths
from trainyard.contract.errors import ConfigError

_OUTPUT: Final = Path(paths.OUTPUT).name
_THINGS: Final = (
    ("adapter", paths.ADAPTER),
    ("merged model", paths.MERGED),
    ("metrics", paths.METRICS),
    ("loss picture", paths.LOSS_PICTURE),
    ("config", paths.RESOLVED_CONFIG),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One output folder of a job."""

    folder: Path
    """The folder on this machine."""
    things: tuple[tuple[str, Path], ...]
    """(what it is, where it is), of those that are there."""
    losses: tuple[float, ...]
    """Training loss by step, from the metrics file."""


def find_outcomes(job_folder: Path) -> tuple[Outcome, ...]:
    """Look through a job's volumes for output folders that hold something."""
    found = []
    for folder in output_folders(job_folder):
        things = tuple((what, folder / name) for what, name in _THINGS if (folder / name).exists())
        if things or any(folder.iterdir()):
            found.append(Outcome(folder=folder, things=things, losses=read_losses(folder / paths.METRICS)))
    return tuple(found)


def output_folders(job_folder: Path) -> Iterator[Path]:
    """List the folders that a trainer may have written to, empty ones too."""
    patterns = (f"volumes/*/{_OUTPUT}", f"pods/*/workspace/{_OUTPUT}", f"pods/*/volumes/*/{_OUTPUT}")
    for pattern in patterns:
        yield from (folder for folder in sorted(job_folder.glob(pattern)) if folder.is_dir())


def move_outcomes(outcomes: Sequence[Outcome], target: Path) -> None:
    """Move output folders to a new folder: the only one becomes it, several go below it, named by their pods.

    Raises ConfigError when there is no output, or something in its place.
    """
    if not outcomes:
        raise ConfigError(f"move the output to {str(target)!r}: the job has none")
    if target.exists():
        raise ConfigError(f"move the output to {str(target)!r}: it exists; name a folder that does not")
    target.parent.mkdir(parents=True, exist_ok=True)
    if len(outcomes) == 1:
        shutil.move(outcomes[0].folder, target)
        return
    for outcome in outcomes:
        shutil.move(outcome.folder, target / outcome.folder.parent.parent.name)


def read_losses(metrics: Path) -> tuple[float, ...]:
    """Read the training loss of each step; a file that is absent or still being written has fewer."""
    try:
        with metrics.open(encoding="utf-8", errors="replace") as lines:
            return tuple(loss for line in lines if (loss := loss_of(line)) is not None)
    except OSError:
        return ()


def loss_of(line: str) -> float | None:
    """Read the loss of one line of a metrics file; None where it has none."""
    try:
        loss = json.loads(line).get("loss")
    except (ValueError, AttributeError):
        return None
    return float(loss) if isinstance(loss, int | float) else None
