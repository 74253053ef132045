"""Turns a forked child into the container's command: session, streams, folder, signals, PATH, exec.

Standard library only: the keeper loads it. What goes wrong before the exec comes back to the parent as `StartError`,
with the exit codes that shells and container engines use: 127 for a command that does not exist, 126 for one that
cannot be executed, 128 for anything else that the container needs and that is not there.
"""

from __future__ import annotations

import errno
import json
import os
import signal

from trainyard.local.containers import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

NOT_EXECUTABLE = 126
NOT_FOUND = 127
CANNOT_START = 128

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where container engines look when the environment has no PATH."""


class StartError(Exception):
    """The container's command could not be started."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def spawn(instructions: dict[str, Any], log_fd: int, prepare: Callable[[], None] | None = None) -> int:
    """Fork and execute the command; give its pid once it is executing.

    `prepare` runs in the child first and may raise StartError. Raises StartError.
    """
    report_read, report_write = os.pipe()
    everything = signal.valid_signals()
    # Blocked from here to the exec: no handler of ours may run in the child, and no signal is lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, everything)
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(instructions, log_fd, prepare, keeper, report_write)
    os.close(report_write)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with open(report_read, "rb") as file:
        report = file.read()  # Empty: the exec closed the pipe.
    if report:
        os.waitpid(pid, 0)
        problem = json.loads(report)
        raise StartError(problem["code"], problem["message"])
    return pid


def _become(
    instructions: dict[str, Any], log_fd: int, prepare: Callable[[], None] | None, keeper: int, report: int
) -> NoReturn:
    try:
        os.setsid()
        kernel.die_with_parent(signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(CANNOT_START)  # The keeper was killed before the line above could count.
        if prepare is not None:
            prepare()
        _execute(instructions, log_fd)
    except StartError as error:
        code, message = error.code, str(error)
    except BaseException as error:
        code, message = CANNOT_START, f"start the container: {type(error).__name__}: {error}"
    try:
        with open(report, "w", encoding="utf-8") as file:
            json.dump({"code": code, "message": message}, file)
    finally:
        os._exit(code)


def _execute(instructions: dict[str, Any], log_fd: int) -> NoReturn:
    os.umask(instructions["umask"])
    folder = instructions["working_dir"]
    try:
        os.chdir(folder)
    except OSError as error:
        raise StartError(CANNOT_START, f"change to the working directory {folder!r}: {error.strerror}") from error
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log_fd, 1), (log_fd, 2)):
        os.dup2(source, target)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)  # An ignored signal (Python ignores SIGPIPE) stays so through exec.
    environment = instructions["environment"]
    argv = [os.fsencode(word) for word in instructions["argv"]]
    encoded = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _exec_from_path(argv, encoded, environment.get("PATH", DEFAULT_PATH))


def _exec_from_path(argv: list[bytes], environment: dict[bytes, bytes], path: str) -> NoReturn:
    name = os.fsdecode(argv[0])
    candidates = [name] if "/" in name else [os.path.join(folder or ".", name) for folder in path.split(":")]  # noqa: PTH118
    denied = None
    for candidate in candidates:
        try:
            os.execve(candidate, argv, environment)
        except ValueError as error:
            raise StartError(CANNOT_START, f"start {name!r}: {error} in the arguments or the environment") from error
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                if os.path.lexists(candidate) and not os.path.isdir(candidate):  # noqa: PTH112
                    raise StartError(
                        NOT_FOUND, f"start {candidate!r}: the interpreter that it names does not exist"
                    ) from error
            elif error.errno == errno.EACCES:
                denied = denied or candidate
            else:
                raise StartError(NOT_EXECUTABLE, _why_not(candidate, error, argv, environment)) from error
    if denied is not None:
        raise StartError(NOT_EXECUTABLE, f"start {denied!r}: not an executable file (permission denied)")
    where = "no such file" if "/" in name else f"no such command in PATH {path!r}"
    raise StartError(NOT_FOUND, f"start {name!r}: {where}")


def _why_not(candidate: str, error: OSError, argv: list[bytes], environment: dict[bytes, bytes]) -> str:
    if error.errno == errno.E2BIG:
        words = sum(len(word) + 1 for word in argv)
        variables = sum(len(name) + len(value) + 2 for name, value in environment.items())
        longest = max(
            max(map(len, argv)), max((len(name) + len(value) + 1 for name, value in environment.items()), default=0)
        )
        return (
            f"start {candidate!r}: {words} bytes of arguments and {variables} bytes of environment, the longest single "
            f"one {longest} bytes, are more than this system takes; pass the data in a file"
        )
    if error.errno == errno.ENOEXEC:
        return f"start {candidate!r}: neither a program for this machine nor a script with a first line '#!...'"
    return f"start {candidate!r}: {error.strerror}"
