"""Who runs a job, in a form that cannot be mistaken for a later process with the same pid."""

import fcntl
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessIdentity:
    """A process of this machine since its last boot."""

    pid: int
    start_time: str
    boot_id: str

    @classmethod
    def current(cls) -> "ProcessIdentity":
        """Identify this process."""
        pid = os.getpid()
        return cls(pid=pid, start_time=_start_time(pid), boot_id=_boot_id())

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> "ProcessIdentity":
        """Read back what `to_dict` gave."""
        return cls(pid=int(raw["pid"]), start_time=str(raw["startTime"]), boot_id=str(raw["bootId"]))

    def to_dict(self) -> dict[str, Any]:
        """Serialise for supervisor.json."""
        return {"pid": self.pid, "startTime": self.start_time, "bootId": self.boot_id}

    def is_alive(self) -> bool:
        """Say whether that very process still runs."""
        return self.boot_id == _boot_id() and self.start_time != "" and _start_time(self.pid) == self.start_time


def is_locked(path: Path) -> bool | None:
    """Say whether some process holds the exclusive lock on a file; None where the file system cannot tell."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return False


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return _output("sysctl", "-n", "kern.boottime")


def _start_time(pid: int) -> str:
    """Give when a process started, in the system's own form; empty when it does not run (a zombie does not)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        if Path("/proc/self").exists():
            return ""
        return _output("ps", "-o", "lstart=", "-p", str(pid))
    return "" if fields[0] in "ZX" else fields[19]


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return ""
    return done.stdout.strip()
