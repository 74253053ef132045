"""Deselects, with one line, what needs an mpirun that this environment lacks."""

import os
import shutil
import sys
from pathlib import Path

import pytest

HAS_MPIRUN = shutil.which("mpirun", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if HAS_MPIRUN:
        return
    without = [item for item in items if item.get_closest_marker("mpi")]
    config.hook.pytest_deselected(items=without)
    items[:] = [item for item in items if item not in without]


def pytest_report_collectionfinish() -> list[str]:
    return [] if HAS_MPIRUN else ["tests of the mpirun shim deselected: no mpirun here"]
