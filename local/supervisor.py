"""A job in the background: a process of its own session, which survives the terminal and the command that started it.

    python -m trainyard.local.supervisor FOLDER LOCK_FD READY_FD

`start_supervisor` hands over the folder's lock and waits for one line: that the job runs, or why it does not. What
the supervisor itself has to say later goes to `supervisor.log` in the folder.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trainyard.contract.errors import TrainyardError, TransientError
from trainyard.contract.exit_codes import ExitCode
from trainyard.contract.termination import TerminationMessage
from trainyard.local.containers.survivors import kill_survivors
from trainyard.local.store import job_folder as files
from trainyard.local.store.job_folder import JobFolder
from trainyard.local.store.state import JobState

LOG: Final = "supervisor.log"
_START_SECONDS: Final = 60.0
_LOG_TAIL_BYTES: Final = 2000


class SupervisorError(TrainyardError):
    """The background process found something wrong at its start; `code` and `reason` are those of what it found."""

    def __init__(self, message: TerminationMessage) -> None:
        super().__init__(message.message)
        self._said = message
        known = message.code in ExitCode.__members__.values()
        self.code = ExitCode(message.code) if known else ExitCode.INTERNAL  # type: ignore[misc]

    @property
    def reason(self) -> str:
        """Name what the background process named."""
        return self._said.reason


def start_supervisor(folder: JobFolder) -> Mapping[str, Any]:
    """Start a supervisor for a folder that is ready to run; gives the TrainJob with its first status.

    Raises what the supervisor says is wrong.
    """
    ready, theirs = os.pipe()
    try:
        with open(folder.path / LOG, "ab") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "trainyard.local.supervisor"),
                    *(str(folder.path), str(folder.lock_fd), str(theirs)),
                ],
                pass_fds=(folder.lock_fd, theirs),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=_environment(),
                start_new_session=True,
            )
        os.close(theirs)
        theirs = -1
        process.wait()  # It forks at once, and goes on as nobody's child.
        answer = _read_line(ready)
    except BaseException:
        _abandon(folder)
        raise
    finally:
        os.close(ready)
        if theirs >= 0:
            os.close(theirs)
    if answer is None:
        _abandon(folder)
        tail = (folder.path / LOG).read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace").strip()
        raise TransientError(f"start the supervisor of {str(folder.path)!r}: it ended without a word: {tail}")
    if "error" in answer:
        raise SupervisorError(TerminationMessage(**answer["error"]))
    folder.keep()
    folder.close()
    train_job: Mapping[str, Any] = answer["trainJob"]
    return train_job


def _abandon(folder: JobFolder) -> None:
    """End a supervisor that was not waited for; its containers go with it."""
    supervisor = JobState(folder.path).supervisor()
    if supervisor is not None and supervisor.is_alive():
        os.kill(supervisor.pid, signal.SIGKILL)
    kill_survivors(folder.path)


def _environment() -> dict[str, str]:
    """Give the caller's environment; a module path relative to the caller's folder would be lost in `/`."""
    environ = dict(os.environ)
    search = environ.get("PYTHONPATH")
    if search:
        environ["PYTHONPATH"] = os.pathsep.join(str(Path(entry).absolute()) for entry in search.split(os.pathsep))
    return environ


def _read_line(fd: int) -> dict[str, Any] | None:
    data, deadline = b"", time.monotonic() + _START_SECONDS
    while not data.endswith(b"\n"):
        if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return None
        chunk = os.read(fd, 65536)
        if not chunk:
            return None
        data += chunk
    answer: dict[str, Any] = json.loads(data)
    return answer


def main(arguments: list[str]) -> int:
    """Run the job of a folder, in the background."""
    path, lock_fd, ready_fd = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.set_inheritable(lock_fd, False)
    os.set_inheritable(ready_fd, False)
    folder = JobFolder.adopt(path, lock_fd)
    try:
        succeeded = _supervise(folder, ready_fd)
    except TrainyardError as error:
        _tell(ready_fd, {"error": _as_dict(TerminationMessage.from_error(error))})
        return int(error.code)
    except Exception as error:
        _tell(ready_fd, {"error": _as_dict(TerminationMessage.from_error(error))})
        raise
    return 0 if succeeded else 1


def _supervise(folder: JobFolder, ready_fd: int) -> bool:
    from trainyard.contract import names
    from trainyard.local.engine.engine import Engine
    from trainyard.local.engine.job_set_spec import read_job_set
    from trainyard.local.machine import RunRequest, open_machine
    from trainyard.local.store.yaml_text import read_stream

    def documents(name: str) -> list[dict[str, Any]]:
        return read_stream((folder.path / name).read_text(encoding="utf-8"))

    def stored(name: str) -> Any:
        return json.loads((folder.path / name).read_text(encoding="utf-8"))

    [train_job] = documents(files.TRAIN_JOB)
    objects = documents(files.PLAN)
    request = stored(files.REQUEST)
    config_maps, warnings = request.pop("configMaps"), request.pop("warnings")
    manifest = next(one for one in objects if one["kind"] == names.JOBSET)
    job_set = read_job_set(manifest)
    machine = open_machine(
        manifest,
        job_set,
        folder=folder.path,
        request=RunRequest.from_dict(request),
        secrets=(*stored(files.SECRETS), *(one for one in objects if one["kind"] == "Secret")),
        config_maps=(*config_maps, *(one for one in objects if one["kind"] == "ConfigMap")),
    )
    engine = Engine(folder=folder, train_job=train_job, job_set=job_set, machine=machine, warnings=warnings)
    machine.serve_progress(engine.report_progress)

    def started() -> None:
        _send(ready_fd, {"trainJob": dict(engine.snapshot().train_job)})  # Fails when nobody waits any more.

    engine.run(signals=(signal.SIGINT, signal.SIGTERM), on_started=started)
    folder.close()
    return engine.succeeded


def _as_dict(message: TerminationMessage) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(message.to_json())
    return answer


def _send(ready_fd: int, answer: Mapping[str, Any]) -> None:
    """Give the one answer that the starter waits for."""
    data = (json.dumps(answer) + "\n").encode()
    while data:
        data = data[os.write(ready_fd, data) :]
    os.close(ready_fd)


def _tell(ready_fd: int, answer: Mapping[str, Any]) -> None:
    """Say what went wrong; a later fault has no reader."""
    try:
        _send(ready_fd, answer)
    except OSError:
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
