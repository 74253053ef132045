"""Enters the namespaces of one container: user (for anyone but root), mount, host name, and process ids.

Standard library only: the keeper loads it. `instructions["namespaces"]` says which are permitted (`local.isolation`):

    {"user": true, "pid": true}
"""

from __future__ import annotations

import json
import os
import signal

from trainyard.local.containers import container_command, kernel
from trainyard.local.containers.container_command import CANNOT_START, StartError
from trainyard.local.containers.mount_tree import MountTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def enter(instructions: dict[str, Any], flags: int = 0) -> None:
    """Give this process (and the rest of its life) the container's own file tree and host name.

    `flags` are further namespaces to leave. Raises StartError.
    """
    namespaces = instructions["namespaces"]
    flags |= kernel.CLONE_NEWNS | (kernel.CLONE_NEWUTS if instructions["hostname"] else 0)
    try:
        if namespaces["user"] and not namespaces["pid"]:
            kernel.enter_user_namespace(flags)
        else:
            kernel.unshare(flags)
        if instructions["hostname"]:
            kernel.set_hostname(instructions["hostname"])
        tree = MountTree(os.path.dirname(instructions["log_file"]))  # noqa: PTH120
        tree.build([tuple(mount) for mount in instructions["mounts"]], own_proc=namespaces["pid"])
    except OSError as error:
        where = f" at {error.filename!r}" if error.filename else ""
        raise StartError(CANNOT_START, f"make the container's namespaces{where}: {error.strerror}") from error


class FirstProcess:
    """The container's process 1: starts the command and, by ending, has the kernel kill everything in the namespace.

    It is not the command itself: a process 1 is spared by every signal that it does not handle, which programs do not
    expect, and it has to reap orphans.
    """

    def __init__(self, instructions: dict[str, Any], log_fd: int) -> None:
        """Fork it and wait until the command is executing. Raises StartError."""
        try:
            if instructions["namespaces"]["user"]:
                kernel.enter_user_namespace(kernel.CLONE_NEWPID)
            else:
                kernel.unshare(kernel.CLONE_NEWPID)
        except OSError as error:
            raise StartError(CANNOT_START, f"make a process namespace: {error.strerror}") from error
        read, write = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self.pid = os.fork()
        """As the host sees it; killing it kills the container."""
        if self.pid == 0:
            os.close(read)
            _be_first_process(instructions, log_fd, write)
        os.close(write)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._messages = open(read, encoding="utf-8")  # noqa: SIM115
        self._read()
        message = self._read()
        if "started" not in message:
            os.waitpid(self.pid, 0)
            killed = {"code": CANNOT_START, "message": "start the container: its first process was killed"}
            failed = message.get("failed", killed)
            raise StartError(failed["code"], failed["message"])

    def command_status(self) -> int:
        """Give the command's wait status, once process 1 has ended; SIGKILL's when it was killed itself."""
        status: int = self._read().get("ended", signal.SIGKILL)
        self._messages.close()
        return status

    def _read(self) -> dict[str, Any]:
        line = self._messages.readline()
        message: dict[str, Any] = json.loads(line) if line else {}
        return message


def _be_first_process(instructions: dict[str, Any], log_fd: int, write: int) -> NoReturn:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    kernel.die_with_parent(signal.SIGKILL)
    try:
        _tell(write, {"forked": True})  # Fails when the keeper was killed before the line above could count.
        try:
            enter(instructions)
            command = container_command.spawn(instructions, log_fd)
        except StartError as error:
            _tell(write, {"failed": {"code": error.code, "message": str(error)}})
            os._exit(0)
        _tell(write, {"started": True})
        os.close(log_fd)
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == command:
                _tell(write, {"ended": status})
                os._exit(0)
    except BaseException as error:
        _tell(write, {"failed": {"code": CANNOT_START, "message": f"start the container: {error!r}"}})
    finally:
        os._exit(CANNOT_START)


def _tell(fd: int, message: dict[str, Any]) -> None:
    os.write(fd, json.dumps(message).encode() + b"\n")
