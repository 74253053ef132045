"""The small process above one container: starts its command, and never lets anything of it outlive the end.

`launch` starts one keeper per container with `python -I -S`, a control socket and a file of instructions (never argv:
the environment holds secrets). The keeper reports two JSON lines on the socket, `started` and `ended`, keeps the same
in the record file, and reads single bytes: T asks the command's process group to end, K kills everything. The end of
file means that the supervisor is dead, and kills everything too.

Nothing outlives the container: the keeper is a child subreaper (Linux), so every orphan becomes its child and can be
found; when the main process has ended, whatever is left is killed, as the death of a container's PID 1 does.
Standard library only, and little of it: a keeper must be up in milliseconds.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import time

from trainyard.local.containers import container_command, kernel, process_tree
from trainyard.local.containers.container_command import CANNOT_START, StartError
from trainyard.local.containers.log_copy import LogCopy
from trainyard.local.containers.namespaces import FirstProcess
from trainyard.local.containers.namespaces import enter as enter_namespaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from resource import struct_rusage
    from typing import Any

TERMINATE = b"T"
KILL = b"K"

_ASKS_TO_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PARENT_DIED = signal.SIGUSR1


class Keeper:
    """Runs one container to its end."""

    def __init__(self, control_fd: int, instructions: dict[str, Any]) -> None:
        self._control_fd = control_fd
        self._instructions = instructions
        self._supervisor = os.getppid()
        self._main = 0
        """The child whose end is the container's."""
        self._command = 0
        """The command, leader of its process group; the same process, or the child of the first one."""
        self._first_process: FirstProcess | None = None
        self._main_status: int | None = None
        self._output = LogCopy()
        self._killed_because = ""
        self._max_rss_bytes = 0
        self._cpu_seconds = 0.0
        self._record: dict[str, Any] = {
            "container_id": instructions["container_id"],
            "keeper_pid": os.getpid(),
            "pid": 0,
            "state": "starting",
            "started_at": time.time(),
        }

    def run(self) -> None:
        """Start the command, wait for its end, kill what is left, report."""
        kernel.name_process("trainyard-keep")
        wake = self._catch_signals()
        oom_kills = _oom_kills()
        try:
            kernel.become_subreaper()
            self._start()
        except StartError as error:
            self._kill_the_rest()
            self._end(exit_code=error.code, reason="StartError", message=str(error))
            return
        self._watch(wake)
        self._kill_the_rest()
        while self._output.copy():
            pass
        self._report_end(oom_kills)

    def _catch_signals(self) -> int:
        """Route signals into a pipe that the loop waits on."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (*_ASKS_TO_END, _PARENT_DIED, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        # The socket's end says the same, unless a child of the supervisor holds a copy of the other side. It is not a
        # killing signal because the death of the *thread* that started us sends it as well.
        kernel.die_with_parent(_PARENT_DIED)
        return wake_read

    def _start(self) -> None:
        log_fd = self._output.open(self._instructions["log_file"])
        namespaces = self._instructions["namespaces"]
        if not namespaces:
            self._command = self._main = container_command.spawn(self._instructions, log_fd)
        elif namespaces["pid"]:
            self._first_process = FirstProcess(self._instructions, log_fd)
            self._main = self._first_process.pid
            # Its pid here differs from the one that process 1 sees.
            self._command = min(process_tree.descendants({self._main}), default=self._main)
        else:
            enter = functools.partial(enter_namespaces, self._instructions)
            self._command = self._main = container_command.spawn(self._instructions, log_fd, enter)
        os.close(log_fd)
        self._record.update(pid=self._command, state="running", started_at=time.time())
        self._write_record()
        self._tell({"started": self._record})

    def _watch(self, wake: int) -> None:
        """Serve the socket and the signals until the main process has ended."""
        poll = select.poll()
        poll.register(self._control_fd, select.POLLIN)
        poll.register(wake, select.POLLIN)
        poll.register(self._output.read_fd, select.POLLIN)
        while self._main_status is None and not self._killed_because:
            for fd, _ in poll.poll():
                if fd == self._control_fd:
                    self._on_request()
                elif fd == wake:
                    self._on_signal(wake)
                elif not self._output.copy():
                    poll.unregister(fd)

    def _on_request(self) -> None:
        try:
            request = os.read(self._control_fd, 64)
        except ConnectionResetError:
            request = b""
        if not request:
            self._killed_because = "trainyard ended and with it everything that it had started"
        elif KILL in request:
            self._killed_because = "killed"
        elif TERMINATE in request:
            self._terminate()

    def _on_signal(self, wake: int) -> None:
        numbers = os.read(wake, 256)
        if os.getppid() != self._supervisor:
            self._killed_because = "trainyard ended and with it everything that it had started"
        if any(number in numbers for number in _ASKS_TO_END):
            self._terminate()
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._reaped(pid, status, usage)

    def _terminate(self) -> None:
        process_tree.send_to_group(self._command, self._instructions["stop_signal"])

    def _kill_the_rest(self) -> None:
        process_tree.kill_all_below(self._reaped)
        if not kernel.IS_LINUX:
            # No subreaper: orphans are the machine's init's children, found by what their environment says.
            from trainyard.local.containers.survivors import kill_survivors

            kill_survivors(self._instructions["marker"])

    def _reaped(self, pid: int, status: int, usage: struct_rusage) -> None:
        unit = 1024 if kernel.IS_LINUX else 1  # ru_maxrss: KiB on Linux, bytes on macOS.
        self._max_rss_bytes = max(self._max_rss_bytes, usage.ru_maxrss * unit)
        self._cpu_seconds += usage.ru_utime + usage.ru_stime
        if pid == self._main:
            self._main_status = self._first_process.command_status() if self._first_process else status

    def _report_end(self, oom_kills_before: int) -> None:
        code = os.waitstatus_to_exitcode(self._main_status if self._main_status is not None else signal.SIGKILL)
        if code == -signal.SIGKILL and not self._killed_because and _oom_kills() > oom_kills_before:
            self._end(exit_code=137, number=9, reason="OOMKilled", message="")
        elif code < 0:
            self._end(exit_code=128 - code, number=-code, reason="Error", message=self._killed_because)
        else:
            self._end(exit_code=code, reason="Error" if code else "Completed", message="")

    def _end(self, *, exit_code: int, number: int | None = None, reason: str, message: str) -> None:
        self._record.update(
            state="ended",
            exit_code=exit_code,
            signal=number,
            reason=reason,
            message=message,
            finished_at=time.time(),
            max_rss_bytes=self._max_rss_bytes,
            cpu_seconds=round(self._cpu_seconds, 3),
        )
        self._write_record()
        self._tell({"ended": self._record})

    def _write_record(self) -> None:
        target = self._instructions["record_file"]
        partial = f"{target}.partial"
        try:
            fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(fd, "w", encoding="utf-8") as file:
                json.dump(self._record, file)
            os.replace(partial, target)  # noqa: PTH105
        except OSError:
            pass  # A full disk must not keep the container from being ended; the socket tells the same.

    def _tell(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._control_fd, data) :]
        except (BrokenPipeError, ConnectionResetError):
            pass  # The supervisor is dead; the record file remains.


def _oom_kills() -> int:
    """Count what the kernel has killed on this machine because memory ran out."""
    try:
        with open("/proc/vmstat", "rb") as file:
            for line in file:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def main(control: str, instructions_file: str, _label: str = "") -> None:
    """Keep the container that the instructions describe; never returns.

    The arguments are two numbers of descriptors, and what a person should see in the output of `ps`.
    """
    control_fd, instructions_fd = int(control), int(instructions_file)
    os.set_inheritable(control_fd, False)
    with open(instructions_fd, "rb") as file:
        instructions = json.loads(file.read())
    keeper = Keeper(control_fd, instructions)
    code = 0
    try:
        keeper.run()
    except BaseException as error:
        code = CANNOT_START
        process_tree.kill_all_below(lambda *_: None)
        keeper._end(exit_code=code, reason="StartError", message=f"keeper: {type(error).__name__}: {error}")
    os._exit(code)
