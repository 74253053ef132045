"""Deselects, with one line, what this machine does not permit."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from trainyard.local.containers.isolation import Isolation, detect_isolation, mapped

HERE = Path(__file__).parent


def isolations() -> list[Isolation]:
    found = detect_isolation("auto", {})
    return [mapped()] if found.paths == "mapped" else [mapped(), found]


def _why_not(needs: str) -> str:
    if needs == "namespace":
        return detect_isolation("auto", {}).reason
    if needs == "linux":
        return "" if sys.platform.startswith("linux") else "needs Linux"
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return "needs root and setpriv, to become another user"
    return "" if Path("/usr/bin/python3").exists() else "needs a Python that every user can read"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "isolation" in metafunc.fixturenames:
        metafunc.parametrize("isolation", isolations(), ids=lambda isolation: isolation.paths)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(what): deselected on a machine without namespace, linux or other_user")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deselected: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.path.is_relative_to(HERE):
            reason = next(filter(None, (_why_not(mark.args[0]) for mark in item.iter_markers("needs"))), "")
            if reason:
                deselected.setdefault(reason, []).append(item)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    for reason, unfit in deselected.items():
        items[:] = [item for item in items if item not in unfit]
        config.hook.pytest_deselected(items=unfit)
        if reporter is not None:
            reporter.write_line(f"{len(unfit)} tests of tests/local/launch deselected: {reason}")
