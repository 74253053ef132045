"""One file of a staging: brought over and named, or found to be there already. Called by the worker threads."""

import logging
import os
import threading
from contextlib import suppress
from dataclasses import replace

from trainyard.contract.errors import IntegrityError
from trainyard.storage.destination import Destination
from trainyard.storage.manifest import Entry
from trainyard.storage.progress import Meter
from trainyard.storage.source import Source, SourceFile
from trainyard.storage.transfer import Transferred, hash_file, transfer

_log = logging.getLogger(__name__)


class FileStager:
    """Stages files one by one; safe to call from several threads."""

    def __init__(
        self, source: Source, destination: Destination, meter: Meter, stop: threading.Event, doing: str
    ) -> None:
        self._source = source
        self._destination = destination
        self._meter = meter
        self._stop = stop
        self._doing = doing

    def is_intact(self, earlier: Entry) -> bool:
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

    def fetch(self, file: SourceFile) -> Transferred:
        """Bring one file over; what changed or came wrong is asked for once more."""
        try:
            return self._fetch_once(file)
        except IntegrityError as error:
            _log.warning("%s; trying once more", error)
        try:
            return self._fetch_once(self._source.refresh(file))
        except IntegrityError as error:
            raise type(error)(f"{self._doing}: {error}, and again on the second try") from error

    def _fetch_once(self, file: SourceFile) -> Transferred:
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
        return came


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
