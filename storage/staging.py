"""One run of a staging, under the folder's lock: check everything, then change the folder. `stage` is the way in."""

import itertools
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainyard.contract.errors import BadDataError, CannotWriteError, NoSpaceError
from trainyard.storage.destination import Destination, Known
from trainyard.storage.file_stager import FileStager
from trainyard.storage.file_system import can_reflink, require_space
from trainyard.storage.manifest import DamagedManifestError, Entry, Header
from trainyard.storage.patterns import Selection
from trainyard.storage.progress import Meter
from trainyard.storage.safe_name import HostileNameError, Names
from trainyard.storage.source import Source, SourceFile
from trainyard.storage.workers import in_parallel

LISTED_FIRST: Final = 50_000
"""So many files are listed and checked before the first byte is written; the names of a larger source are checked, and
its first files staged, while the listing goes on."""


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


class Staging:
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
        self._files = FileStager(source, destination, meter, self._stop, self._doing)

    def run(self, workers: int, started: float) -> StageReport:
        """Check everything, then change the folder."""
        known = self._known()
        tasks = self._tasks(known)
        first = list(itertools.islice(tasks, LISTED_FIRST))
        listed_all = len(first) < LISTED_FIRST
        unwanted = [path for path in known.entries if path not in self._names] if listed_all else []
        freed = self._destination.reclaimable_bytes() + sum(known.entries[path].size_bytes for path in unwanted)
        self._require_space(first, freed_bytes=freed)
        if listed_all:
            sizes = [task.file.size_bytes for task in first]
            self._meter.expect(len(first), None if None in sizes else sum(size or 0 for size in sizes))

        self._destination.begin(self._asked.source_uri, known)
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
            if earlier is not None and not earlier.is_of(file, same_source=same_source):
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
        if task.earlier is not None and self._files.is_intact(task.earlier):
            outcome = _Outcome(size_bytes=task.earlier.size_bytes, staged=False)
        else:
            came = self._files.fetch(task.file)
            outcome = _Outcome(size_bytes=came.size_bytes, is_reflink=came.is_reflink)
        self._meter.finished()
        return outcome


def _tool() -> str:
    # Imported here: it costs 15 ms, and a folder that is complete needs none of it.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"trainyard {version('trainyard')}"
    except PackageNotFoundError:
        return "trainyard"
