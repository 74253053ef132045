"""The folder that is staged into: what lies where while the work goes on, and how it becomes complete.

    DESTINATION/                              0755
      model.safetensors                       0644, named so only when its bytes are all there and checked
      tokenizer/vocab.json
      .trainyard-manifest.json                the folder is complete exactly when this exists
      .trainyard-work/                        only while it is not
        lock                                  held by the one who is staging (`lock`)
        journal.jsonl                         what is done (`journal`)
        model.safetensors.1f0c66ab.partial    a file under way: NAME, a digest of its whole path, `.partial`

A file goes: partial -> size and digest checked -> fsync -> line in the journal -> rename. Large files are flushed one
by one, many small ones together by one syncfs(2) before the manifest. The manifest is written last: flushed, renamed,
its folder flushed; then the work folder goes. A staging that changes a complete folder takes the manifest away first.

Files that we did not stage are never touched: other names stay as they are, and a name that is wanted and taken is an
error, unless `replace`. A file that we staged is ours also after somebody edited it: it is put right, or goes when the
source has it no more. Links in the destination are not followed below its top.
"""

import errno
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from trainyard.contract.errors import CannotWriteError, TrainyardError, from_os_error
from trainyard.storage import journal, lock, manifest
from trainyard.storage.file_system import fsync_folder, set_mode, sync_file_system
from trainyard.storage.journal import Journal
from trainyard.storage.manifest import Entry, Header, Manifest

WORK: Final = ".trainyard-work"
FSYNC_BYTES: Final = 8 * 1024 * 1024
"""A file of this size is flushed by itself, in the thread that wrote it."""
_FEW: Final = 8
"""So many small files, and folders, are flushed one by one; for more, one syncfs is cheaper though it waits for other
people's data too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What an earlier run left in the folder."""

    source_uri: str | None
    """Where it was staged from; None when there is nothing of ours."""
    entries: dict[str, Entry]
    """The files that are ours, done or replaced later: by path."""
    same_boot: bool
    """Whether the machine ran on since; if not, an unfinished run's files must be read to be believed."""


class Destination:
    """One folder on its way to being complete."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = Manifest(folder)
        self.work = folder / WORK
        self._journal_path = self.work / "journal.jsonl"
        self._journal: Journal | None = None
        self._folders: set[str] = set()
        self._folders_lock = threading.Lock()
        self._small_files = 0
        self._made: list[Path] = []

    def create(self) -> None:
        """Make the folder where it is missing; raises CannotWriteError when there can be none."""
        with self.writing(self.folder, "make the folder"):
            missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
            for path in reversed(missing):
                path.mkdir(exist_ok=True)
                set_mode(path, 0o755)
            self._made = missing
            if not self.folder.is_dir():
                raise CannotWriteError(f"stage into {str(self.folder)!r}: it is a file, expected a folder")

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the folder's lock; gives whether somebody else had it first."""
        with ExitStack() as stack:
            with self.writing(self.work, "make"):
                waited = stack.enter_context(lock.hold(self.work / "lock"))
            yield waited

    def is_unfinished(self) -> bool:
        """Say whether a work folder lies here: somebody is at work, or was killed."""
        return self.work.exists()

    def ignores_case(self) -> bool:
        """Find out whether two names that differ only in case are one file here; needs the lock."""
        return (self.work / "LOCK").exists()

    def known(self) -> Known:
        """Read what an earlier run left: the manifest, and the journal of a run that was cut off."""
        entries: dict[str, Entry] = {}
        uri: str | None = None
        if self.manifest.exists():
            uri = self.manifest.header.source_uri
            entries.update((entry.path, entry) for entry in self.manifest.entries())
        header = journal.read_header(self._journal_path)
        if header is not None:
            uri = header.source_uri
            entries.update((entry.path, entry) for entry in journal.read_entries(self._journal_path))
        same_boot = header is None or (header.boot_id != "" and header.boot_id == journal.boot_id())
        return Known(source_uri=uri, entries=entries, same_boot=same_boot)

    def holds(self, entry: Entry) -> bool:
        """Say whether the file of an entry is there and untouched, by size and time."""
        try:
            status = os.lstat(self.folder / entry.path)
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(status.st_mode) and (status.st_size, status.st_mtime_ns) == (
            entry.size_bytes,
            entry.mtime_ns,
        )

    def refuse_taken(self, path: str, known: Known, *, replace: bool) -> None:
        """Raise CannotWriteError when something that is not ours stands where `path` should go."""
        doing = f"stage {path!r} into {str(self.folder)!r}"
        place, relative = self.folder, ""
        for part in path.split("/")[:-1]:
            place, relative = place / part, f"{relative}{part}"
            mode = self._mode(place)
            if mode is None or relative in known.entries:
                return
            if not stat.S_ISDIR(mode):
                raise CannotWriteError(f"{doing}: {str(place)!r} is not a folder")
            relative += "/"
        if path in known.entries:
            return
        mode = self._mode(place / path.rpartition("/")[2])
        if mode is None:
            return
        if stat.S_ISDIR(mode):
            if not any(name.startswith(f"{path}/") for name in known.entries):
                raise CannotWriteError(f"{doing}: there is a folder of that name")
        elif not replace:
            raise CannotWriteError(
                f"{doing}: there is a file of that name that was not staged here; move it away, or set REPLACE=true"
            )

    def _mode(self, place: Path) -> int | None:
        if str(place) in self._folders:
            return stat.S_IFDIR
        try:
            mode = os.lstat(place).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISDIR(mode):
            self._folders.add(str(place))
        return mode

    def reclaimable_bytes(self) -> int:
        """Say how much space the partial files of an earlier run take, which `begin` gives back."""
        return sum(file.lstat().st_blocks * 512 for file in self.work.glob("*.partial"))

    def begin(self, source_uri: str, known: Known) -> None:
        """Start to change the folder: from here on it is not complete."""
        with self.writing(self._journal_path, "write"):
            for partial in self.work.glob("*.partial"):
                partial.unlink()
            self._journal = Journal.begin(
                self._journal_path, source_uri, known.entries.values(), believed=known.same_boot
            )
            self.manifest.path.unlink(missing_ok=True)
            fsync_folder(self.folder)

    def partial(self, path: str) -> Path:
        """Name the file that `path` is written to until it is done."""
        name = path.rpartition("/")[2]
        suffix = f".{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}.partial"
        while len(os.fsencode(name)) + len(suffix) > 255:
            name = name[:-1]
        return self.work / f"{name}{suffix}"

    def finish_file(self, descriptor: int, entry: Entry) -> Entry:
        """Give the partial file its name: the bytes behind `descriptor` are all there and checked."""
        with self.writing(self.folder / entry.path, "write"):
            set_mode(descriptor, 0o644)
            with self._folders_lock:
                self._small_files += 1
                alone = entry.size_bytes >= FSYNC_BYTES or self._small_files <= _FEW
            if alone:
                os.fsync(descriptor)
            done = replace(entry, mtime_ns=os.fstat(descriptor).st_mtime_ns)
            self._make_parents(entry.path)
            self._open_journal().append(done)
            self.partial(entry.path).replace(self.folder / entry.path)
        return done

    def keep_file(self, entry: Entry) -> None:
        """Note that a file is as its entry says now, read anew."""
        with self.writing(self._journal_path, "write"):
            self._open_journal().append(entry)

    def remove(self, paths: Iterable[str]) -> None:
        """Take away files of ours that are not wanted any more, and folders that are empty then.

        What a person has put in such a place since (a folder, a link on the way there) stays.
        """
        for path in paths:
            place = self.folder / path
            mode = self._mode(place) if self._is_really_below(place) else None
            if mode is not None and not stat.S_ISDIR(mode):
                with self.writing(place, "remove"):
                    place.unlink(missing_ok=True)
            for parent in place.parents:
                if parent == self.folder:
                    break
                if self._is_really_below(parent):
                    with suppress(OSError):  # Not empty, or gone already.
                        parent.rmdir()
                        self._folders.discard(str(parent))

    def _is_really_below(self, place: Path) -> bool:
        """Say whether nothing but real folders lies between our top and `place`."""
        parents = place.relative_to(self.folder).parents
        return all(stat.S_ISDIR(self._mode(self.folder / parent) or 0) for parent in list(parents)[:-1])

    def complete(self, header: Header, wanted: Callable[[str], bool] | None) -> None:
        """Flush everything and put the manifest in place; the folder is complete when this returns.

        `wanted` says which names of the journal stay; None where the journal has nothing of an earlier run.
        """
        with self.writing(self.manifest.path, "write"):
            self._flush()
            entries: Iterable[Entry] = journal.read_entries(self._journal_path)
            if wanted is not None:
                latest = {entry.path: entry for entry in entries}
                entries = (entry for entry in latest.values() if wanted(entry.path))
            partial = self.work / "manifest.partial"
            manifest.write(partial, header, entries)
            partial.replace(self.manifest.path)
            fsync_folder(self.folder)
            self.clear()
            self._made.clear()

    def clear(self) -> None:
        """Remove the work folder, lock included; harmless when a waiter has made it anew."""
        self.close()
        for file in sorted(self.work.iterdir(), key=lambda file: file.name == "lock"):
            file.unlink(missing_ok=True)
        with suppress(OSError):
            self.work.rmdir()

    def abandon(self) -> None:
        """Let go after a failure; where nothing had begun (a refusal before any byte), leave nothing."""
        self.close()
        if not self._journal_path.exists():
            try:
                self.clear()
                for folder in self._made:
                    folder.rmdir()
            except OSError:
                return

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    @contextmanager
    def writing(self, place: Path, doing: str) -> Iterator[None]:
        """Turn an OSError in the block into the error that names `place`."""
        try:
            yield
        except OSError as error:
            raise self.error(error, f"{doing} {str(place)!r}") from error

    def error(self, error: OSError, doing: str) -> TrainyardError:
        """Translate an OSError of the destination; what is missing here is a fault of the destination's."""
        if error.errno in (errno.ENOENT, errno.EEXIST, errno.ELOOP, errno.EFBIG):
            return CannotWriteError(f"{doing}: {error.strerror}")
        return from_os_error(error, doing)

    def _open_journal(self) -> Journal:
        if self._journal is None:
            raise ValueError("begin() comes first")
        return self._journal

    def _make_parents(self, path: str) -> None:
        place = self.folder
        for part in path.split("/")[:-1]:
            place = place / part
            name = str(place)
            with self._folders_lock:
                if name in self._folders:
                    continue
                try:
                    place.mkdir()
                    set_mode(place, 0o755)
                except FileExistsError:
                    if not stat.S_ISDIR(os.lstat(place).st_mode):
                        raise
                self._folders.add(name)

    def _flush(self) -> None:
        """Bring names, and the small files that were not flushed alone, to the disk."""
        if max(self._small_files, len(self._folders)) > _FEW:
            sync_file_system(self.folder)
            return
        for name in self._folders:
            fsync_folder(Path(name))
        fsync_folder(self.folder)
