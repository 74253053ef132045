"""The journal: which files of an unfinished staging are done, so that a kill costs one file a thread and no more.

One JSON line each: first `{"source": URI, "boot": ID}`, then a manifest entry for every file, appended before the file
gets its name. A line that the kill cut off is ignored. What a line says counts only while the file still has the size
and time that it says; and after a restart of the machine (another boot ID) only when its bytes still have the digest,
because a file system may have kept a name and lost the data behind it.
"""

import json
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainyard.storage.manifest import Entry


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalHeader:
    """What is being staged, and since which start of the machine."""

    source_uri: str
    boot_id: str


class Journal:
    """An open journal; `append` may be called from any thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._lock = threading.Lock()

    @classmethod
    def begin(cls, path: Path, source_uri: str, known: Iterable[Entry], *, believed: bool) -> "Journal":
        """Start a journal that already has the `known` entries; it replaces one of an earlier run atomically.

        `believed` says whether they may count unread; if not, the next run reads every file of this one too.
        """
        fresh = path.with_name(f"{path.name}.partial")
        with open(fresh, "w", encoding="ascii") as file:
            file.write(json.dumps({"source": source_uri, "boot": boot_id() if believed else ""}) + "\n")
            file.writelines(f"{entry.to_line()}\n" for entry in known)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        return cls(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))

    def append(self, entry: Entry) -> None:
        """Add a finished file."""
        line = f"{entry.to_line()}\n".encode("ascii")
        with self._lock:
            try:
                left = line
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except OSError:
                os.ftruncate(self._descriptor, self._size)  # Half a line would spoil the next one.
                raise
            self._size += len(line)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def read_header(path: Path) -> JournalHeader | None:
    """Read the header; None when there is no journal, or none worth the name."""
    try:
        with open(path, encoding="ascii") as file:
            raw = json.loads(file.readline())
        return JournalHeader(source_uri=str(raw["source"]), boot_id=str(raw["boot"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_entries(path: Path) -> Iterator[Entry]:
    """Read the entries in the order they were written; one path may come again, the last counts."""
    with open(path, encoding="ascii", errors="replace") as file:
        file.readline()
        for line in file:
            if not line.endswith("\n"):
                return
            try:
                raw = json.loads(line)
            except ValueError:
                return
            yield Entry.from_json(raw, repr(str(path)))


def boot_id() -> str:
    """Name this start of the machine; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
