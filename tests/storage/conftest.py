"""Sources and places that the storage tests share."""

import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from trainyard.contract.errors import SourceNotFoundError
from trainyard.storage.source import SourceChangedError, SourceFile, SourceIdentity


class MemoryReader:
    descriptor: int | None = None

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def readinto(self, buffer: memoryview, /) -> int:
        count = min(len(buffer), len(self._data))
        buffer[:count] = self._data[:count]
        self._data = self._data[count:]
        return count

    def confirm(self) -> None:
        pass

    def close(self) -> None:
        pass


class MemorySource:
    """A source that lists and serves what a test says, also what no file system could hold."""

    def __init__(
        self,
        contents: Mapping[str, bytes],
        *,
        uri: str = "memory://test",
        revision: str | None = None,
        sizes: bool = True,
        promised: Mapping[str, Mapping[str, str]] | None = None,
        names: list[str] | None = None,
    ) -> None:
        self.contents = dict(contents)
        self.opened: list[str] = []
        self.listings = 0
        self.stale: dict[str, int] = {}
        self._uri = uri
        self._revision = revision
        self._sizes = sizes
        self._promised = promised or {}
        self._names = names

    def resolve(self) -> SourceIdentity:
        return SourceIdentity(uri=self._uri, revision=self._revision)

    def files(self) -> Iterator[SourceFile]:
        self.listings += 1
        for name in self._names if self._names is not None else list(self.contents):
            yield self._describe(name)

    def refresh(self, file: SourceFile) -> SourceFile:
        if file.path not in self.contents:
            raise SourceNotFoundError(f"{self._uri}: {file.path!r} is gone")
        return self._describe(file.path)

    def open(self, file: SourceFile, start: int = 0, stop: int | None = None) -> MemoryReader:
        self.opened.append(file.path)
        if self.stale.get(file.path, 0):
            self.stale[file.path] -= 1
            raise SourceChangedError(f"read {file.path!r}: the file was changed")
        return MemoryReader(self.contents[file.path][start:stop])

    def _describe(self, name: str) -> SourceFile:
        data = self.contents.get(name, b"")
        return SourceFile(
            path=name,
            size_bytes=len(data) if self._sizes else None,
            version=hashlib.md5(data).hexdigest(),
            digests=self._promised.get(name, {}),
        )


@pytest.fixture
def memory_source() -> type[MemorySource]:
    return MemorySource


def _permitted(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


MOUNT = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
UNPRIVILEGED = ["unshare", "-U"] if os.geteuid() == 0 else []
NEEDS = {
    "private_mounts": ([*MOUNT, "mount", "-t", "tmpfs", "none", "/mnt"], "a private mount namespace"),
    "unprivileged": ([*UNPRIVILEGED, "true"], "a user namespace"),
}


@pytest.fixture
def private_mounts() -> list[str]:
    """The command that runs another one where it may mount."""
    return MOUNT


@pytest.fixture
def unprivileged() -> list[str]:
    """The command that runs another one without root's right to ignore permissions."""
    return UNPRIVILEGED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for fixture, (trial, name) in NEEDS.items():
        needing = [item for item in items if fixture in getattr(item, "fixturenames", ())]
        if needing and not _permitted(trial):
            config.hook.pytest_deselected(items=needing)
            items[:] = [item for item in items if item not in needing]
            reporter = config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                reporter.write_line(f"deselected {len(needing)} storage tests: this machine does not permit {name}")


def tree(folder: Path) -> dict[str, bytes]:
    """Everything below a folder that is not our bookkeeping."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not any(part.startswith(".trainyard-") for part in file.relative_to(folder).parts)
    }


@pytest.fixture(name="tree")
def tree_fixture() -> object:
    return tree
