"""Re-check a staged folder: hash every file and compare with the manifest. Behind `trainyard verify DIR`."""

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainyard.contract.errors import AccessDeniedError, SourceNotFoundError
from trainyard.storage.destination import WORK
from trainyard.storage.manifest import Entry, Manifest
from trainyard.storage.progress import Meter, Observer
from trainyard.storage.safe_name import RESERVED_PREFIX
from trainyard.storage.stage import WORKERS
from trainyard.storage.transfer import hash_file
from trainyard.storage.workers import in_parallel


@dataclass(frozen=True, kw_only=True, slots=True)
class BadFile:
    """A file that is not what the manifest says."""

    path: str
    expected: str
    """`16 bytes` or `sha256 9f86...`."""
    found: str

    def __str__(self) -> str:
        return f"{self.path!r}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyReport:
    """What a verification found."""

    folder: Path
    source_uri: str
    revision: str | None
    files: int
    """Files that the manifest lists."""
    size_bytes: int
    bad: tuple[BadFile, ...]
    """Files with other bytes, or that cannot be read."""
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    """Files that the manifest does not list; no fault: they may be somebody's own."""
    seconds: float

    @property
    def ok(self) -> bool:
        """Say whether every listed file is there with its bytes."""
        return not self.bad and not self.missing


def verify(folder: Path, *, workers: int = WORKERS, observer: Observer | None = None) -> VerifyReport:
    """Hash all files of a staged folder, in parallel.

    Raises SourceNotFoundError when the folder was never completely staged, DamagedManifestError when its manifest
    cannot be trusted.
    """
    started = time.monotonic()
    manifest = Manifest(folder)
    try:
        if not manifest.exists():
            raise SourceNotFoundError(f"verify {str(folder)!r}: {_why_no_manifest(folder)}")
        header = manifest.header
    except PermissionError as error:
        raise AccessDeniedError(f"verify {str(folder)!r}: {error.strerror}") from error
    meter = Meter(observer)
    meter.expect(header.file_count, header.byte_count)
    stop = threading.Event()
    listed: set[str] = set()
    bad: list[BadFile] = []
    missing: list[str] = []

    def entries() -> Iterator[Entry]:
        for entry in manifest.entries():
            listed.add(entry.path)
            yield entry

    def check(entry: Entry) -> tuple[Entry, BadFile | None]:
        try:
            problem = _check(folder, entry, meter, stop)
        except FileNotFoundError:
            missing.append(entry.path)
            problem = None
        meter.finished()
        return entry, problem

    for _, problem in in_parallel(check, entries(), workers=workers, stop=stop, tick=meter.tick):
        if problem is not None:
            bad.append(problem)
    meter.tick(at_once=True)
    return VerifyReport(
        folder=folder,
        source_uri=header.source_uri,
        revision=header.revision,
        files=header.file_count,
        size_bytes=header.byte_count,
        bad=tuple(sorted(bad, key=lambda file: file.path)),
        missing=tuple(sorted(missing)),
        extra=tuple(sorted(_extra(folder, listed))),
        seconds=time.monotonic() - started,
    )


def _check(folder: Path, entry: Entry, meter: Meter, stop: threading.Event) -> BadFile | None:
    place = folder / entry.path
    promised = f"{entry.size_bytes} bytes"
    try:
        status = os.lstat(place)
        if status.st_size != entry.size_bytes:
            return BadFile(path=entry.path, expected=promised, found=f"{status.st_size} bytes")
        size, sha256 = hash_file(place, moved=meter.moved, stop=stop)
    except FileNotFoundError:
        raise
    except OSError as error:
        return BadFile(path=entry.path, expected=promised, found=f"what cannot be read: {error.strerror}")
    if size != entry.size_bytes:
        return BadFile(path=entry.path, expected=promised, found=f"{size} bytes")
    if sha256 != entry.sha256:
        return BadFile(path=entry.path, expected=f"sha256 {entry.sha256}", found=f"sha256 {sha256}")
    return None


def _why_no_manifest(folder: Path) -> str:
    if not folder.exists():
        return "no such folder"
    if not folder.is_dir():
        return "it is a file, expected a staged folder"
    if (folder / WORK).exists():
        return "its staging has not finished; run the initializer again to go on"
    return "it has no manifest, so it was not staged by trainyard"


def _extra(folder: Path, listed: set[str]) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        prefix = os.path.relpath(place, folder)
        inner = "" if prefix == "." else f"{prefix}/"
        folders[:] = [name for name in folders if not name.startswith(RESERVED_PREFIX)]
        if not inner and "lost+found" in folders:
            folders.remove("lost+found")  # Every ext4 volume has one.
        for name in files:
            path = f"{inner}{name}"
            if not name.startswith(RESERVED_PREFIX) and path not in listed:
                yield path
