"""Starts one container as a real process tree that can always be ended in full.

    process = start(launch, isolation)
    selector.register(process.wait_fd, EVENT_READ)      # readable when there is something to learn: call poll()
    end = process.poll()                                # None while it runs, then a ContainerEnd
    process.terminate()                                 # stop signal to the command's process group
    process.kill()                                      # SIGKILL to everything in the container

Above each container sits a keeper (`local.keeper`), which also ends everything when this process dies. When the keeper
itself was killed, `poll` finds and kills what is left by the marker that each process of the container carries in its
environment (`local.survivors`).
"""

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trainyard.contract import paths
from trainyard.contract.errors import from_os_error
from trainyard.local.containers import lean_start
from trainyard.local.containers.isolation import Isolation
from trainyard.local.containers.survivors import MARKER, kill_survivors

MESSAGE_LIMIT_BYTES: Final = 4096
"""As Kubernetes: the end of the termination file."""
LOG_LIMIT_BYTES: Final = 2048
"""As Kubernetes: the end of the log that stands in for the message (FallbackToLogsOnError)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """A file or folder of the host, and the path that the container sees it at."""

    source: Path
    """On the host; it must exist. subPath is resolved by the caller."""
    target: str
    """Absolute path inside the container."""
    read_only: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerLaunch:
    """All that is needed to start one container."""

    argv: tuple[str, ...]
    """Command and arguments; the command is looked up in PATH of `environment`, inside the container."""
    environment: Mapping[str, str]
    """The whole environment; only the marker TRAINYARD_CONTAINER_ID is added."""
    log_file: Path
    """Standard output and standard error together, appended. Its folder must exist."""
    termination_file: Path
    """Where the container leaves its termination message; appears at /dev/termination-log in a mount namespace."""
    working_dir: Path | None = None
    """Inside the container; None: `/`. It must exist."""
    mounts: tuple[Mount, ...] = ()
    """Made real in a mount namespace; ignored when the isolation is `mapped`."""
    hostname: str | None = None
    """The container's own host name, where permitted; None: the host's. A mount of /etc/hosts must resolve it."""
    stop_signal: int = signal.SIGTERM
    """What `terminate` sends."""
    umask: int = 0o022
    logs_are_message: bool = False
    """Whether a failure without a termination message takes the end of the log as its message
    (`terminationMessagePolicy: FallbackToLogsOnError`)."""
    record_file: Path | None = None
    """Where the keeper keeps pids, times and the end, as JSON; None: beside the termination file."""
    container_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Distinguishes this start from all others; part of the marker."""

    @property
    def record_path(self) -> Path:
        """Name the record file."""
        return self.record_file or self.termination_file.with_name(f"{self.termination_file.name}.process.json")

    @property
    def marker(self) -> str:
        """Name the value of TRAINYARD_CONTAINER_ID: below the record file's path, hence below the job's folder."""
        return f"{os.path.realpath(self.record_path)}/{self.container_id}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerEnd:
    """How a container ended."""

    exit_code: int
    """The main process's; 128 + n for a signal; 127, 126 or 128 when it could not be started."""
    signal: int | None
    """What killed the main process; None when it exited."""
    reason: str
    """`Completed`, `Error`, `OOMKilled` or `StartError`."""
    message: str
    """The termination message, else why it did not start or was killed, else empty."""
    started_at: datetime
    finished_at: datetime
    max_rss_bytes: int
    """Resident memory of its largest process at that one's peak; 0 when unknown."""
    cpu_seconds: float
    """User and system time of all its processes that were waited for; 0 when unknown."""


class ContainerProcess:
    """A container that was started. Close it after its end, or let it be collected."""

    def __init__(self, launch: ContainerLaunch, keeper: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._launch = launch
        self._keeper = keeper
        self._control_fd = control.detach()
        os.set_blocking(self._control_fd, False)
        self._received = b""
        self._pid = keeper.pid
        self._started_at = time.time()
        self._ended: dict[str, Any] | None = None
        self._end: ContainerEnd | None = None

    @property
    def pid(self) -> int:
        """Process id of the main process as the host sees it; the keeper's until the command has started."""
        return self._pid

    @property
    def keeper_pid(self) -> int:
        """Process id of the keeper."""
        return self._keeper.pid

    @property
    def is_started(self) -> bool:
        """Say whether the command was executing when `poll` last looked."""
        return self._pid != self._keeper.pid

    @property
    def wait_fd(self) -> int:
        """Descriptor that is readable when `poll` has something to learn: the start, and the end."""
        return self._control_fd

    def fileno(self) -> int:
        """Give `wait_fd`, so that a selector takes the object itself."""
        return self._control_fd

    def poll(self) -> ContainerEnd | None:
        """Give the end, or None while anything of the container is alive; never waits for the container."""
        if self._end is None and self._receive():
            self._keeper.wait()
            if self._ended is None:
                self._ended = self._clean_up_after_keeper()
            self._end = self._describe(self._ended)
        return self._end

    def terminate(self) -> None:
        """Send the stop signal to the command's process group; harmless after the end."""
        self._ask(b"T")

    def kill(self) -> None:
        """Send SIGKILL to everything in the container; harmless after the end."""
        self._ask(b"K")
        if self._end is None:
            try:
                os.kill(self._keeper.pid, signal.SIGCONT)  # A stopped keeper could not obey.
            except ProcessLookupError:
                pass

    def close(self) -> None:
        """Release the descriptor; a container that still runs is killed first."""
        if self._control_fd >= 0:
            self.kill()
            os.close(self._control_fd)
            self._control_fd = -1
            self._keeper.wait()

    def __del__(self) -> None:
        self.close()

    def _ask(self, request: bytes) -> None:
        if self._end is None and self._control_fd >= 0:
            try:
                os.write(self._control_fd, request)
            except (BrokenPipeError, ConnectionResetError, BlockingIOError):
                pass  # The keeper is gone, or has more requests to read than a socket holds.

    def _receive(self) -> bool:
        """Take in what the keeper said; True when it has hung up."""
        while True:
            try:
                data = os.read(self._control_fd, 65536)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True
            if not data:
                return True
            *lines, self._received = (self._received + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "started" in message:
                    self._pid = message["started"]["pid"]
                    self._started_at = message["started"]["started_at"]
                else:
                    self._ended = message["ended"]

    def _clean_up_after_keeper(self) -> dict[str, Any]:
        left = kill_survivors(self._launch.marker)
        status = self._keeper.returncode
        what = "was killed" if status < 0 else f"failed with status {status}"
        message = f"the container's keeper (pid {self._keeper.pid}) {what}, and with it the container"
        if left:
            message += f"; these processes could not be killed: {', '.join(map(str, left))}"
        return {
            "exit_code": 128 + signal.SIGKILL,
            "signal": int(signal.SIGKILL),
            "reason": "Error",
            "message": message,
            "started_at": self._started_at,
            "finished_at": time.time(),
            "max_rss_bytes": 0,
            "cpu_seconds": 0.0,
        }

    def _describe(self, ended: dict[str, Any]) -> ContainerEnd:
        message = ended["message"] if ended["reason"] == "StartError" else ""
        message = message or _tail(self._launch.termination_file, MESSAGE_LIMIT_BYTES)
        if not message and ended["exit_code"] != 0 and self._launch.logs_are_message:
            message = _tail(self._launch.log_file, LOG_LIMIT_BYTES)
        return ContainerEnd(
            exit_code=ended["exit_code"],
            signal=ended["signal"],
            reason=ended["reason"],
            message=message or ended["message"],
            started_at=datetime.fromtimestamp(ended["started_at"], UTC),
            finished_at=datetime.fromtimestamp(ended["finished_at"], UTC),
            max_rss_bytes=ended["max_rss_bytes"],
            cpu_seconds=ended["cpu_seconds"],
        )


def start(launch: ContainerLaunch, isolation: Isolation) -> ContainerProcess:
    """Start a container and return at once; whatever is wrong with its command becomes its end.

    Raises a TrainyardError when the keeper cannot be started: no room for files, descriptors or processes.
    """
    instructions = json.dumps(_instructions(launch, isolation)).encode()
    ours = theirs = None
    try:
        launch.termination_file.write_bytes(b"")  # A restart must not read its predecessor's message.
        ours, theirs = socket.socketpair()
        with _private_file(instructions) as file, theirs:
            keeper = subprocess.Popen(
                lean_start.command_line("keeper", str(theirs.fileno()), str(file.fileno()), launch.marker),
                pass_fds=(theirs.fileno(), file.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={**os.environ, MARKER: launch.marker},
                start_new_session=True,
            )
    except OSError as error:
        if ours is not None:
            ours.close()
        where = f" ({error.filename})" if error.filename else ""
        raise from_os_error(error, f"start a container's keeper{where}") from error
    return ContainerProcess(launch, keeper, ours)


def _instructions(launch: ContainerLaunch, isolation: Isolation) -> dict[str, Any]:
    return {
        "argv": list(launch.argv),
        "environment": {**launch.environment, MARKER: launch.marker},
        "working_dir": str(launch.working_dir or "/"),
        "log_file": str(launch.log_file),
        "record_file": str(launch.record_path),
        "container_id": launch.container_id,
        "marker": launch.marker,
        "umask": launch.umask,
        "stop_signal": int(launch.stop_signal),
        "hostname": launch.hostname,
        "mounts": [(str(mount.source), mount.target, mount.read_only) for mount in _mounts(launch)],
        "namespaces": isolation.to_instructions(),
    }


def _mounts(launch: ContainerLaunch) -> tuple[Mount, ...]:
    if any(mount.source == launch.termination_file for mount in launch.mounts):
        return launch.mounts
    return (*launch.mounts, Mount(source=launch.termination_file, target=paths.TERMINATION_LOG))


def _private_file(data: bytes) -> Any:
    """Make a file without a name, positioned at its start, that only this process and those it hands it to can read."""
    if hasattr(os, "memfd_create"):
        file: Any = os.fdopen(os.memfd_create("trainyard-container"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(data)
    file.flush()
    file.seek(0)
    return file


def _tail(file: Path, limit_bytes: int) -> str:
    """Read the end of a file; empty when it cannot be read."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - limit_bytes))
            return stream.read(limit_bytes).decode("utf-8", "replace").strip()
    except OSError:
        return ""
