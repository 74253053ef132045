"""Jobs on this machine as others see them: the reading side of the state directory, requests to a running job, delete.

Nothing here needs the process that runs a job. Whether it still lives is decided by the lock that it holds (where the
file system has none, by its pid, start time and boot); a job whose supervisor is gone without an end is shown as
Failed, with that reason.
"""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trainyard.contract import names
from trainyard.contract.errors import ConfigError
from trainyard.local.containers.survivors import find_survivors, kill_survivors
from trainyard.local.engine.clock import fine_stamp, stamp
from trainyard.local.engine.status import REASON_STATE_DAMAGED, REASON_SUPERVISOR_DIED
from trainyard.local.pods.substitution import SUBSTITUTIONS_FILE
from trainyard.local.store import control, shape
from trainyard.local.store import job_folder as files
from trainyard.local.store.liveness import ProcessIdentity, is_locked

DEFAULT_NAMESPACE: Final = "default"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")
_PAUSE_SECONDS: Final = 0.05
_STOP_SECONDS: Final = 45.0
"""The default grace period and a margin."""
_KILL_SECONDS: Final = 10.0
_PLAIN_FILES: Final = (files.STATUS, files.PODS, files.TRAIN_JOB, files.RUNTIME, files.PLAN)


def default_state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Give `${XDG_STATE_HOME:-~/.local/state}/trainyard`."""
    environ = os.environ if environ is None else environ
    home = environ.get("XDG_STATE_HOME")
    if home and Path(home).is_absolute():
        return Path(home) / "trainyard"
    return _with_home("~/.local/state/trainyard")


def _with_home(path: str | Path) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"state directory {str(path)!r}: whose home folder is meant is not known; set HOME or choose a place with "
            "--state-dir"
        ) from error


class StateDir:
    """All jobs of one state directory."""

    def __init__(self, path: str | Path | None = None) -> None:
        if path is not None and not str(path):
            raise ConfigError("--state-dir: expected a folder, got nothing")
        self.path = (_with_home(path) if path is not None else default_state_dir()).absolute()

    def folder(self, namespace: str, name: str) -> Path:
        """Say where a job's folder is, or would be; raises ConfigError for names that no job can have."""
        for what, value in (("namespace", namespace), ("job name", name)):
            if not _NAME.match(value):
                raise ConfigError(f"{what} {value!r}: expected lower-case letters, digits and hyphens")
        return self.path / namespace / name

    def jobs(self, namespace: str | None = None) -> list["JobState"]:
        """List the jobs, oldest first."""
        found = [JobState(folder) for folder in self._folders(namespace) if (folder / files.STATUS).exists()]
        return sorted(found, key=lambda job: (job.created_at, job.namespace, job.name))

    def job(self, namespace: str, name: str, *, any_remains: bool = False) -> "JobState":
        """Find a job; raises ConfigError, with similar names, when there is none.

        `any_remains`: a folder without a status counts too, as a crash may leave it.
        """
        folder = self.folder(namespace, name)
        if (folder if any_remains else folder / files.STATUS).exists():
            return JobState(folder)
        message = f"no job {name!r} in namespace {namespace!r} of {str(self.path)!r}"
        elsewhere = [job.namespace for job in self.jobs() if job.name == name]
        if elsewhere:
            raise ConfigError(f"{message}; there is one in namespace {elsewhere[0]!r}")
        import difflib

        near = difflib.get_close_matches(name, [job.name for job in self.jobs(namespace)], n=1)
        raise ConfigError(f"{message}; did you mean {near[0]!r}?" if near else message)

    def _folders(self, namespace: str | None) -> Iterator[Path]:
        try:
            spaces = [self.path / namespace] if namespace is not None else sorted(self.path.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return
        for space in spaces:
            if space.name.startswith("."):
                continue
            try:
                yield from sorted(folder for folder in space.iterdir() if not folder.name.startswith("."))
            except OSError:
                continue


class JobState:
    """One job, alive or not. Every call reads anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self.namespace = folder.parent.name

    @property
    def created_at(self) -> float:
        """Give the time at which it was asked for, seconds since the epoch."""
        for path in (self.folder / files.TRAIN_JOB, self.folder):
            try:
                return path.stat().st_mtime
            except OSError:
                continue
        return 0.0

    def train_job(self) -> dict[str, Any]:
        """Give the TrainJob as it was asked for."""
        return self._yaml(files.TRAIN_JOB)[0]

    def runtime(self) -> dict[str, Any]:
        """Give the runtime that it was planned with."""
        return self._yaml(files.RUNTIME)[0]

    def plan(self) -> list[dict[str, Any]]:
        """Give the objects that are executed."""
        return self._yaml(files.PLAN)

    def status(self) -> dict[str, Any]:
        """Give the TrainJob with its status; Failed when its supervisor died."""
        train_job, alive = self._read_with_liveness()
        return train_job if alive or _is_finished(train_job) else self._given_up(train_job)

    def pods(self) -> list[dict[str, Any]]:
        """Give pods.json; what was running when the supervisor died is shown as failed."""
        train_job, alive = self._read_with_liveness()
        pods: list[dict[str, Any]] = self._json(files.PODS, shape.are_pods) or []
        return pods if alive or _is_finished(train_job) else [self._orphaned_pod(pod) for pod in pods]

    def damaged(self) -> list[str]:
        """Name the files that are there and cannot be read, as a power cut may leave them."""
        return [name for name in _PLAIN_FILES if self._is_damaged(name)]

    def events(self) -> list[dict[str, str]]:
        """Give the events, oldest first."""
        try:
            lines = (self.folder / files.EVENTS).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        found = []
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # The line that is being written.
            if isinstance(event, dict):
                found.append(event)
        return found

    def log_path(self, pod: str, container: str, previous: bool = False) -> Path:
        """Say where a container's output is; `previous`: of the run before the last restart."""
        return self.folder / "logs" / pod / f"{container}{'.previous' if previous else ''}.log"

    def substitutions(self, pod: str) -> dict[str, Any]:
        """Give a pod's isolation and its containers' substitutions; empty before it is prepared."""
        found: dict[str, Any] = self._json(f"pods/{pod}/{SUBSTITUTIONS_FILE}", shape.is_object) or {}
        return found

    def supervisor(self) -> ProcessIdentity | None:
        """Identify the process that runs it, or ran it; None before it is known."""
        raw = self._json(files.SUPERVISOR, shape.is_object)
        try:
            return None if raw is None else ProcessIdentity.from_dict(raw)
        except (KeyError, TypeError, ValueError):
            return None

    def is_alive(self) -> bool:
        """Say whether some process runs it."""
        locked = is_locked(self.folder / files.LOCK)
        if locked is None:
            supervisor = self.supervisor()
            return supervisor is not None and supervisor.is_alive()
        return locked

    def is_finished(self) -> bool:
        """Say whether it is Complete or Failed, or will never be because its supervisor died."""
        return _is_finished(self.status())

    def processes(self) -> list[int]:
        """List the processes of its containers."""
        return find_survivors(self.folder)

    def stop(self) -> bool:
        """Ask it to stop; a second time, at once. False when nobody runs it."""
        return control.send(self.folder / files.CONTROL, "stop")

    def suspend(self) -> bool:
        """Ask it to end its pods until it is resumed. False when nobody runs it."""
        return control.send(self.folder / files.CONTROL, "suspend")

    def resume(self) -> bool:
        """Ask it to go on. False when nobody runs it."""
        return control.send(self.folder / files.CONTROL, "resume")

    def delete(self, *, stop_seconds: float = _STOP_SECONDS) -> None:
        """Stop it, kill whatever is left of it, and remove its folder with volumes, logs and status.

        Raises ConfigError when processes cannot be ended.
        """
        self._end_supervisor(stop_seconds)
        left = kill_survivors(self.folder)
        if left:
            pids = ", ".join(map(str, left))
            raise ConfigError(
                f"delete job {self.name!r}: these processes could not be killed: {pids}; the folder stays"
            )
        try:
            # Out of the way first, so that nobody sees half a job, and a new one can have the name.
            hidden = self.folder.with_name(f".deleted-{self.name}-{os.getpid()}-{time.monotonic_ns()}")
            self.folder.rename(hidden)
        except FileNotFoundError:
            return
        files.remove_tree(hidden)
        try:
            self.folder.parent.rmdir()
        except OSError:
            pass  # Other jobs are in it.

    def _end_supervisor(self, stop_seconds: float) -> None:
        supervisor = self.supervisor()
        alive = self.is_alive()
        if alive and supervisor is not None and supervisor.pid == os.getpid():
            raise ConfigError(f"delete {self.name!r}: this very process runs it; stop it first")
        for seconds in (stop_seconds, _KILL_SECONDS):
            if not alive or not self.stop():
                break
            deadline = time.monotonic() + seconds
            while alive and time.monotonic() < deadline:
                time.sleep(_PAUSE_SECONDS)
                alive = self.is_alive()
        if alive and supervisor is not None and supervisor.is_alive():
            try:
                os.kill(supervisor.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read_with_liveness(self) -> tuple[dict[str, Any], bool]:
        """Read the status, and whether somebody still writes it."""
        train_job = self._json(files.STATUS, shape.is_train_job) or {}
        if _is_finished(train_job):
            return train_job, False
        if self.is_alive():
            return train_job, True
        return self._json(
            files.STATUS, shape.is_train_job
        ) or train_job, False  # It may have ended between the two looks.

    def _given_up(self, train_job: dict[str, Any]) -> dict[str, Any]:
        """Say that it will never end by itself: its supervisor died, or nobody can tell."""
        if not self._is_damaged(files.STATUS):
            return self._orphaned(train_job)
        message = (
            f"{str(self.folder / files.STATUS)!r} is damaged, so nobody knows how this job ended; "
            "its logs and volumes may tell; delete it when you are done"
        )
        return self._failed(self._asked_for(), REASON_STATE_DAMAGED, message)

    def _asked_for(self) -> dict[str, Any]:
        try:
            return self.train_job()
        except ConfigError:
            return {"metadata": {"name": self.name, "namespace": self.namespace}}

    def _orphaned(self, train_job: dict[str, Any]) -> dict[str, Any]:
        supervisor = self.supervisor()
        who = f" (pid {supervisor.pid})" if supervisor is not None else ""
        message = (
            f"the process that ran this job{who} ended without finishing it: it was killed, or the machine was "
            "restarted; run the job again"
        )
        return self._failed(train_job, REASON_SUPERVISOR_DIED, message)

    def _failed(self, train_job: dict[str, Any], reason: str, message: str) -> dict[str, Any]:
        when = self._last_write()
        status = dict(train_job.get("status") or {})
        condition = {
            "type": names.FAILED,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": stamp(when),
        }
        status["conditions"] = [*(status.get("conditions") or ()), condition]
        status["jobsStatus"] = [
            {**job, "ready": 0, "active": 0, "failed": job.get("failed", 0) + (1 if job.get("active") else 0)}
            for job in status.get("jobsStatus") or ()
        ]
        status.update(phase="Failed", message=message, completionTime=stamp(when))
        return {**train_job, "status": status}

    def _orphaned_pod(self, pod: dict[str, Any]) -> dict[str, Any]:
        if pod.get("phase") not in ("Pending", "Running"):
            return pod
        end = {"state": "terminated", "ready": False, "exitCode": 137, "reason": REASON_SUPERVISOR_DIED}
        when = fine_stamp(self._last_write())
        containers = [
            {**one, **end, "finishedAt": when} if one.get("state") == "running" else one
            for one in pod.get("containers", [])
        ]
        changes = {"phase": "Failed", "ready": False, "reason": REASON_SUPERVISOR_DIED, "finishedAt": when}
        return {**pod, **changes, "containers": containers}

    def _last_write(self) -> datetime:
        times = []
        for name in (files.STATUS, files.PODS, files.EVENTS):
            try:
                times.append((self.folder / name).stat().st_mtime)
            except OSError:
                continue
        return datetime.fromtimestamp(max(times, default=0.0), UTC)

    def _json(self, name: str, is_right: Callable[[Any], bool]) -> Any:
        """Read a JSON file; None where it is absent or damaged."""
        try:
            value = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return value if is_right(value) else None

    def _is_damaged(self, name: str) -> bool:
        if not (self.folder / name).exists():
            return False
        if name == files.STATUS:
            return self._json(name, shape.is_train_job) is None
        if name == files.PODS:
            return self._json(name, shape.are_pods) is None
        try:
            self._yaml(name)
        except ConfigError:
            return True
        return False

    def _yaml(self, name: str) -> list[dict[str, Any]]:
        from trainyard.local.store.yaml_text import read_stream

        try:
            documents = read_stream((self.folder / name).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"job {self.name!r}: cannot read {name}: {error.strerror or error}") from error
        except ValueError as error:
            raise ConfigError(f"job {self.name!r}: {name} is damaged: {error}") from error
        if not documents or not all(isinstance(document, dict) for document in documents):
            raise ConfigError(f"job {self.name!r}: {name} is damaged: expected objects")
        return documents


def _is_finished(train_job: Mapping[str, Any]) -> bool:
    return any(
        condition.get("type") in (names.COMPLETE, names.FAILED) and condition.get("status") == "True"
        for condition in (train_job.get("status") or {}).get("conditions") or ()
    )
