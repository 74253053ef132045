"""The verb: bring what is wanted of a source into a folder, checked, resumable, and complete or visibly not.

    report = stage(open_source(StorageUri.parse("file:///data/squad"), os.environ), Path("/workspace/dataset"))

Run again with the same source it finds the work done, in milliseconds; after a kill it goes on with what is missing;
when the source has changed it brings over the difference. The same folder with another source is refused unless
`replace`. What lies on disk meanwhile: `destination`.
"""

import itertools
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainyard.contract.errors import BadDataError, CannotWriteError, ConfigError, IntegrityError, NoSpaceError
from trainyard.storage.destination import Destination, Known
from trainyard.storage.file_system import can_reflink, require_space
from trainyard.storage.manifest import DamagedManifestError, Entry, Header
from trainyard.storage.patterns import Patterns, Selection
from trainyard.storage.progress import Meter, Observer
from trainyard.storage.safe_name import HostileNameError, Names
from trainyard.storage.source import Source, SourceFile, SourceIdentity
from trainyard.storage.transfer import hash_file, transfer
from trainyard.storage.workers import in_parallel

WORKERS: Final = max(2, min(4, os.cpu_count() or 1))
"""Threads that copy and hash; each holds one buffer of 1 MiB."""
LISTED_FIRST: Final = 50_000
"""So many files are listed and checked before the first byte is written; the names of a larger source are checked, and
its first files staged, while the listing goes on."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class StageReport:
    """What a staging did."""

    destination: Path
    source_uri: str
    revision: str | None
    files: int
    """Files that the folder holds now."""
    size_bytes: int
    """Their sum."""
    staged_files: int
    """Files brought over in this run."""
    staged_bytes: int
    reflinked_files: int
    """Of those, files that share their blocks with the source."""
    removed_files: int
    """Files of an earlier run that were not wanted any more."""
    was_complete: bool
    """Nothing had to be done."""
    seconds: float


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
            staging = _Staging(source, destination, asked, selection, replace_other, Meter(observer))
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
        if entry is None or not _matches(file, entry, same_source=True):
            return None
    return None if entries else header


def _matches(file: SourceFile, entry: Entry, *, same_source: bool) -> bool:
    """Say whether an entry was staged from just this version of the file."""
    if file.unreadable or (file.size_bytes is not None and file.size_bytes != entry.size_bytes):
        return False
    digests = {**entry.digests, "sha256": entry.sha256}
    shared = [name for name in file.digests if name in digests]
    if shared:
        return all(file.digests[name] == digests[name] for name in shared)
    return same_source and file.version != "" and file.version == entry.version


@dataclass(frozen=True, kw_only=True, slots=True)
class _Task:
    """One wanted file, and what is known of an earlier copy of this very version."""

    file: SourceFile
    earlier: Entry | None
    is_in_place: bool
    """The earlier copy need not be read to be believed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Outcome:
    size_bytes: int
    staged: bool = True
    is_reflink: bool = False


class _Staging:
    """One run, under the folder's lock."""

    def __init__(
        self,
        source: Source,
        destination: Destination,
        asked: Header,
        selection: Selection,
        replace_other: bool,
        meter: Meter,
    ) -> None:
        self._source = source
        self._destination = destination
        self._asked = asked
        self._selection = selection
        self._replace_other = replace_other
        self._meter = meter
        self._stop = threading.Event()
        self._names = Names(case_insensitive=destination.ignores_case())
        self._doing = f"stage {asked.source_uri} into {str(destination.folder)!r}"

    def run(self, workers: int, started: float) -> StageReport:
        """Check everything, then change the folder."""
        known = self._known()
        tasks = self._tasks(known)
        first = list(itertools.islice(tasks, LISTED_FIRST))
        listed_all = len(first) < LISTED_FIRST
        unwanted = [path for path in known.entries if path not in self._names] if listed_all else []
        self._require_space(first, freed_bytes=sum(known.entries[path].size_bytes for path in unwanted))
        if listed_all:
            sizes = [task.file.size_bytes for task in first]
            self._meter.expect(len(first), None if None in sizes else sum(size or 0 for size in sizes))

        self._destination.begin(self._asked.source_uri, known.entries.values())
        self._destination.remove(unwanted)
        files = byte_count = staged_files = staged_bytes = reflinked = 0
        for outcome in self._outcomes(itertools.chain(first, tasks), workers):
            files += 1
            byte_count += outcome.size_bytes
            staged_files += outcome.staged
            staged_bytes += outcome.size_bytes if outcome.staged else 0
            reflinked += outcome.is_reflink
        if not listed_all:
            unwanted = [path for path in known.entries if path not in self._names]
            self._destination.remove(unwanted)
        header = replace(
            self._asked,
            file_count=files,
            byte_count=byte_count,
            created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            tool=_tool(),
        )
        self._destination.complete(header, self._names.__contains__ if known.entries else None)
        self._meter.tick(at_once=True)
        return StageReport(
            destination=self._destination.folder,
            source_uri=self._asked.source_uri,
            revision=self._asked.revision,
            files=files,
            size_bytes=byte_count,
            staged_files=staged_files,
            staged_bytes=staged_bytes,
            reflinked_files=reflinked,
            removed_files=len(unwanted),
            was_complete=False,
            seconds=time.monotonic() - started,
        )

    def _known(self) -> Known:
        try:
            known = self._destination.known()
        except DamagedManifestError as error:
            if not self._replace_other:
                raise DamagedManifestError(f"{error}; set REPLACE=true to stage the folder anew") from error
            return Known(source_uri=None, entries={}, same_boot=True)
        if known.source_uri not in (None, self._asked.source_uri) and not self._replace_other:
            raise CannotWriteError(
                f"{self._doing}: the folder was staged from {known.source_uri}; choose another folder, "
                f"or set REPLACE=true"
            )
        return known

    def _tasks(self, known: Known) -> Iterator[_Task]:
        """Check the wanted files one by one, and find out what is there of each."""
        same_source = known.source_uri == self._asked.source_uri
        for file in self._selection.choose(self._source.files(), self._asked.source_uri):
            try:
                self._names.add(file.path)
            except HostileNameError as error:
                raise HostileNameError(f"{self._doing}: {error}") from error
            if file.unreadable is not None:
                raise BadDataError(f"{self._doing}: {file.path!r} cannot be staged, {file.unreadable}")
            self._destination.refuse_taken(file.path, known, replace=self._replace_other)
            earlier = known.entries.get(file.path)
            if earlier is not None and not _matches(file, earlier, same_source=same_source):
                earlier = None
            is_in_place = earlier is not None and known.same_boot and self._destination.holds(earlier)
            yield _Task(file=file, earlier=earlier, is_in_place=is_in_place)

    def _require_space(self, tasks: list[_Task], *, freed_bytes: int) -> None:
        missing = [task for task in tasks if task.earlier is None]
        if not missing:
            return
        needed = sum(task.file.size_bytes or 0 for task in missing)
        try:
            require_space(self._destination.folder, needed, len(missing), freed_bytes=freed_bytes, doing=self._doing)
        except NoSpaceError:
            reader = self._source.open(missing[0].file)
            try:
                if reader.descriptor is None or not can_reflink(reader.descriptor, self._destination.work):
                    raise
            finally:
                reader.close()

    def _outcomes(self, tasks: Iterable[_Task], workers: int) -> Iterator[_Outcome]:
        kept: list[_Outcome] = []

        def missing() -> Iterator[_Task]:
            for task in tasks:
                if task.is_in_place and task.earlier is not None:
                    self._meter.kept(task.earlier.size_bytes)
                    kept.append(_Outcome(size_bytes=task.earlier.size_bytes, staged=False))
                else:
                    yield task

        for outcome in in_parallel(self._do, missing(), workers=workers, stop=self._stop, tick=self._meter.tick):
            yield outcome
            yield from kept
            kept.clear()
        yield from kept

    def _do(self, task: _Task) -> _Outcome:
        if task.earlier is not None and self._is_intact(task.earlier):
            self._meter.finished()
            return _Outcome(size_bytes=task.earlier.size_bytes, staged=False)
        outcome = self._fetch(task.file)
        self._meter.finished()
        return outcome

    def _is_intact(self, earlier: Entry) -> bool:
        """Read a file that an earlier run staged: its bytes count, not its time."""
        place = self._destination.folder / earlier.path
        counted = _Counted(self._meter)
        try:
            before = os.lstat(place)
            size, sha256 = hash_file(place, moved=counted.moved, stop=self._stop)
            after = os.lstat(place)
        except OSError:
            counted.take_back()
            return False
        if (size, sha256) != (earlier.size_bytes, earlier.sha256) or before.st_mtime_ns != after.st_mtime_ns:
            counted.take_back()
            return False
        self._destination.keep_file(replace(earlier, mtime_ns=after.st_mtime_ns))
        return True

    def _fetch(self, file: SourceFile) -> _Outcome:
        """Bring one file over; what changed or came wrong is asked for once more."""
        try:
            return self._fetch_once(file)
        except IntegrityError as error:
            _log.warning("%s; trying once more", error)
        try:
            return self._fetch_once(self._source.refresh(file))
        except IntegrityError as error:
            raise type(error)(f"{self._doing}: {error}, and again on the second try") from error

    def _fetch_once(self, file: SourceFile) -> _Outcome:
        partial = self._destination.partial(file.path)
        counted = _Counted(self._meter)
        with self._destination.writing(self._destination.folder / file.path, "write"):
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(partial, flags, 0o600)
            try:
                came = transfer(self._source, file, descriptor, moved=counted.moved, stop=self._stop)
                entry = Entry(
                    path=file.path,
                    size_bytes=came.size_bytes,
                    sha256=came.sha256,
                    mtime_ns=0,
                    version=file.version,
                    digests=file.digests,
                )
                self._destination.finish_file(descriptor, entry)
            except BaseException:
                counted.take_back()
                with suppress(OSError):
                    partial.unlink()
                raise
            finally:
                os.close(descriptor)
        return _Outcome(size_bytes=came.size_bytes, is_reflink=came.is_reflink)


class _Counted:
    """What one file has added to the meter, to be taken back when the file begins anew."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._count = 0

    def moved(self, count: int) -> None:
        self._count += count
        self._meter.moved(count)

    def take_back(self) -> None:
        self._meter.take_back(self._count)


def _tool() -> str:
    # Imported here: it costs 15 ms, and a folder that is complete needs none of it.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"trainyard {version('trainyard')}"
    except PackageNotFoundError:
        return "trainyard"
