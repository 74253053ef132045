"""The folder of one job, as its supervisor writes it. `local.state` is the reading side.

    <state-dir>/<namespace>/<name>/       0700
      lock               flock held by whoever runs the job, from before the folder has content until the end
      train_job.yaml     what was asked for          runtime.yaml   with which runtime
      plan.yaml          the objects that are executed
      request.json       how to run it (devices, ...), for a background supervisor
      secrets.json       Secrets that pods need (0600; removed at the end)
      supervisor.json    pid, start time, boot id
      control            named pipe: one JSON request a line
      status.json        the TrainJob with its status        pods.json   one entry per pod
      events.jsonl       one event a line
      logs/ pods/ volumes/ shims/ hosts      (see `local.job_context`)

JSON and YAML files are written to a temporary name and renamed. A folder without status.json that nobody locks is what
a crash left behind before the first container; the next run of that name takes it over.
"""

import fcntl
import json
import os
import shlex
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trainyard.contract.errors import CannotWriteError, ConfigError, NoSpaceError, TrainyardError, from_os_error
from trainyard.local.store.liveness import ProcessIdentity

LOCK: Final = "lock"
TRAIN_JOB: Final = "train_job.yaml"
RUNTIME: Final = "runtime.yaml"
PLAN: Final = "plan.yaml"
REQUEST: Final = "request.json"
SECRETS: Final = "secrets.json"
SUPERVISOR: Final = "supervisor.json"
CONTROL: Final = "control"
STATUS: Final = "status.json"
PODS: Final = "pods.json"
EVENTS: Final = "events.jsonl"

RESERVE: Final = ".reserve"
_RESERVE_BYTES: Final = 256 * 2**10
"""Kept from the disk for the last word on the job: its status must not be lost to a disk that its output filled."""

LEAST_FREE_BYTES: Final = 64 * 2**20
"""A run does not start with less free space in the state directory."""
_LOCK_SECONDS: Final = 2.0
_LOCK_PAUSE_SECONDS: Final = 0.02


class JobFolder:
    """One job's folder, locked by this process."""

    def __init__(self, path: Path, lock_fd: int, *, made: Sequence[Path] = (), replaced: Path | None = None) -> None:
        self.path = path
        self._lock_fd = lock_fd
        self._made = made
        self._replaced = replaced

    @classmethod
    def create(cls, path: Path, *, replace: bool = False) -> "JobFolder":
        """Make and lock the folder of a new job; raises ConfigError when the name is taken, and disk errors.

        `replace` moves a finished job of the name out of the way, until `keep` or `discard` decide.
        """
        made: list[Path] = []
        replaced = None
        try:
            made = [parent for parent in path.parents if not parent.exists()]
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            check_free_space(path.parent)
            if (path / STATUS).exists():
                replaced = _move_away(path, replace=replace)
            lock_fd = _make_and_lock(path)
        except BaseException as error:
            _remove_empty(made)
            raise (_unwritable(error, path) if isinstance(error, OSError) else error) from error
        folder = cls(path, lock_fd, made=made, replaced=replaced)
        if (path / STATUS).exists():  # Somebody was quicker, and even finished.
            folder.close()
            raise ConfigError(f"job {path.name!r} exists in {str(path)!r}; {_how_to_delete(path)}")
        for child in path.iterdir():
            if child.name != LOCK:
                remove_tree(child)
        return folder

    @classmethod
    def adopt(cls, path: Path, lock_fd: int) -> "JobFolder":
        """Take over a folder from the process that created it, which passed its lock on."""
        return cls(path, lock_fd)

    @property
    def lock_fd(self) -> int:
        """Give the descriptor that holds the lock, to pass it on."""
        return self._lock_fd

    def write_json(self, name: str, value: Any) -> None:
        """Replace a JSON file."""
        self._write(name, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace"))

    def write_yaml(self, name: str, documents: Iterable[Mapping[str, Any]]) -> None:
        """Replace a YAML stream."""
        from trainyard.local.store.yaml_text import write_stream

        self._write(name, write_stream(documents).encode("utf-8", "replace"))

    def append_event(self, event: Mapping[str, str]) -> None:
        """Add one line to the events."""
        line = (json.dumps(dict(event), ensure_ascii=False) + "\n").encode("utf-8", "replace")
        fd = os.open(self.path / EVENTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)

    def claim(self) -> None:
        """Write down that this process runs the job."""
        self.write_json(SUPERVISOR, ProcessIdentity.current().to_dict())

    def reserve(self) -> None:
        """Take some disk space for what is written last, when there is no other."""
        self._write(RESERVE, os.urandom(_RESERVE_BYTES))

    def release(self) -> None:
        """Give the reserved space free, for what is written last."""
        self.remove(RESERVE)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def keep(self) -> None:
        """Remove the job that this one replaces: the new one is about to run."""
        replaced, self._replaced = self._replaced, None
        if replaced is not None:
            remove_tree(replaced)

    def discard(self) -> None:
        """Undo `create`: nothing has happened."""
        remove_tree(self.path)
        if self._replaced is not None:
            self._replaced.rename(self.path)
        self.close()
        _remove_empty(self._made)

    def close(self) -> None:
        """Let go of the lock (a process that it was passed on to keeps it)."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _write(self, name: str, data: bytes) -> None:
        target = self.path / name
        partial = target.with_name(f".{name}.partial")
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            partial.replace(target)
        except OSError:
            partial.unlink(missing_ok=True)  # What is half written would take the space that is missing.
            raise


def _lock(path: Path) -> int:
    """Lock a job's folder; raises ConfigError when its job runs."""
    deadline = time.monotonic() + _LOCK_SECONDS
    lock_fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while True:
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock_fd
        except BlockingIOError:
            # A reader that looks whether somebody holds the lock holds it itself for a moment, but shares it.
            if time.monotonic() > deadline or not _can_share(lock_fd):
                os.close(lock_fd)
                raise ConfigError(f"job {path.name!r} is running in {str(path)!r}; {_how_to_delete(path)}") from None
            time.sleep(_LOCK_PAUSE_SECONDS)


def _can_share(lock_fd: int) -> bool:
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make_and_lock(path: Path) -> int:
    while True:
        path.mkdir(mode=0o700, exist_ok=True)
        lock_fd = _lock(path)
        if _is_same_file(lock_fd, path / LOCK):
            return lock_fd
        os.close(lock_fd)  # Whoever had it removed the folder before letting go.


def _is_same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _move_away(path: Path, *, replace: bool) -> Path:
    """Move a job of the same name aside; raises ConfigError when it runs, or is not to be replaced."""
    lock_fd = _lock(path)
    try:
        if not replace:
            raise ConfigError(
                f"job {path.name!r} exists in {str(path)!r}; {_how_to_delete(path)}, or run with --replace"
            )
        if not _is_same_file(lock_fd, path / LOCK):
            raise ConfigError(f"job {path.name!r} in {str(path)!r} was replaced by somebody else at this moment")
        aside = path.with_name(f".replaced-{path.name}-{os.getpid()}-{time.monotonic_ns()}")
        path.rename(aside)  # While it is locked: whoever else replaces it must not move the new one.
        return aside
    finally:
        os.close(lock_fd)


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return  # Something is in it.


def check_free_space(path: Path) -> None:
    """Refuse to start on a full disk."""
    free = shutil.disk_usage(path).free
    if free < LEAST_FREE_BYTES:
        raise NoSpaceError(
            f"state directory {str(path)!r}: {free // 2**20} MiB are free, at least {LEAST_FREE_BYTES // 2**20} MiB "
            "are needed; free some space or choose another place with --state-dir"
        )


def remove_tree(path: Path) -> None:
    """Remove a file or folder, also below folders that were made read-only."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return

    try:
        shutil.rmtree(path)
    except PermissionError:
        path.chmod(0o700)
        for folder, subfolders, _ in os.walk(path):
            for name in subfolders:
                inner = Path(folder, name)
                if not inner.is_symlink():
                    inner.chmod(0o700)
        shutil.rmtree(path)


def _how_to_delete(path: Path) -> str:
    from trainyard.local.store.state import DEFAULT_NAMESPACE, default_state_dir

    words = ["trainyard", "delete", path.name]
    if path.parent.name != DEFAULT_NAMESPACE:
        words += ["--namespace", path.parent.name]
    if path.parent.parent != default_state_dir():
        words += ["--state-dir", str(path.parent.parent)]
    return f"delete it with `{shlex.join(words)}`"


def _unwritable(error: OSError, path: Path) -> TrainyardError:
    known = from_os_error(error, f"create {str(path)!r} in the state directory")
    if isinstance(known, NoSpaceError):
        return known
    return CannotWriteError(f"{known}; choose another place with --state-dir")
