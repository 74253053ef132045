"""The verb: bring what is wanted of a source into a folder, checked, resumable, and complete or visibly not.

    report = stage(open_source(StorageUri.parse("file:///data/squad"), os.environ), Path("/workspace/dataset"))

Run again with the same source it finds the work done, in milliseconds; after a kill it goes on with what is missing;
when the source has changed it brings over the difference. The same folder with another source is refused unless
`replace`. What lies on disk meanwhile: `destination`.
"""

import os
import time
from pathlib import Path
from typing import Final

from trainyard.contract.errors import ConfigError
from trainyard.storage.destination import Destination
from trainyard.storage.manifest import DamagedManifestError, Header
from trainyard.storage.patterns import Patterns, Selection
from trainyard.storage.progress import Meter, Observer
from trainyard.storage.source import Source, SourceIdentity
from trainyard.storage.staging import StageReport, Staging

WORKERS: Final = max(2, min(4, os.cpu_count() or 1))
"""Threads that copy and hash; each holds one buffer of 1 MiB."""

__all__ = ["WORKERS", "StageReport", "stage"]


def stage(
    source: Source,
    folder: Path,
    *,
    selection: Selection | None = None,
    replace_other: bool = False,
    workers: int = WORKERS,
    observer: Observer | None = None,
) -> StageReport:
    """Bring the selected files of `source` into `folder`.

    `replace_other` allows to replace what was staged from another source, and foreign files whose names are wanted.
    `observer` hears of the progress twice a second. Raises the errors of the source; HostileNameError,
    CannotWriteError and NoSpaceError before a byte is written where that can be known; IntegrityError.
    """
    started = time.monotonic()
    selection = Patterns() if selection is None else selection
    identity = source.resolve()
    _refuse_overlap(identity, folder)
    asked = Header(source_uri=identity.uri, revision=identity.revision, selection=selection.describe())
    destination = Destination(folder)
    if not destination.is_unfinished() and (done := _current(source, destination, asked, selection)):
        return _nothing_done(folder, done, started)
    destination.create()
    with destination.locked():
        try:
            if done := _current(source, destination, asked, selection):
                destination.clear()
                return _nothing_done(folder, done, started)
            staging = Staging(source, destination, asked, selection, replace_other, Meter(observer))
            return staging.run(workers, started)
        except BaseException:
            destination.abandon()
            raise


def _nothing_done(folder: Path, header: Header, started: float) -> StageReport:
    return StageReport(
        destination=folder,
        source_uri=header.source_uri,
        revision=header.revision,
        files=header.file_count,
        size_bytes=header.byte_count,
        staged_files=0,
        staged_bytes=0,
        reflinked_files=0,
        removed_files=0,
        was_complete=True,
        seconds=time.monotonic() - started,
    )


def _refuse_overlap(identity: SourceIdentity, folder: Path) -> None:
    if identity.local_path is None:
        return
    source, target = identity.local_path.resolve(), folder.resolve()
    if source == target or (source.is_file() and source.parent == target):
        raise ConfigError(f"stage {identity.uri} into {str(folder)!r}: they are the same, expected another folder")
    if source.is_dir() and target.is_relative_to(source):
        raise ConfigError(f"stage {identity.uri} into {str(folder)!r}: the folder lies inside the source")


def _current(source: Source, destination: Destination, asked: Header, selection: Selection) -> Header | None:
    """Give the manifest's header when the folder is just what is asked for, as far as sizes and times tell."""
    try:
        if not destination.manifest.exists():
            return None
        header = destination.manifest.header
        if header.source_uri != asked.source_uri or header.selection != asked.selection:
            return None
        entries = {entry.path: entry for entry in destination.manifest.entries()}
    except (DamagedManifestError, FileNotFoundError):
        return None
    if not all(destination.holds(entry) for entry in entries.values()):
        return None
    if asked.revision is not None or header.revision is not None:
        return header if header.revision == asked.revision else None
    for file in selection.choose(source.files(), asked.source_uri):
        entry = entries.pop(file.path, None)
        if entry is None or not entry.is_of(file, same_source=True):
            return None
    return None if entries else header
