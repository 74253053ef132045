"""How a container command ends: exit code, termination message, failure record and one line in the log.

Every entrypoint of ours hands its work to `run_to_exit`, which never returns:

    def main() -> NoReturn:
        run_to_exit(initialize)          # initialize(environ, argv) -> None, or a sentence saying what was done

| how the work ended            | exit code                     | reason                        |
|-------------------------------|-------------------------------|-------------------------------|
| returned                      | 0                             | Completed                     |
| TrainyardError                | the error's own               | its class, `SourceNotFound`   |
| OSError                       | `contract.errors.from_os_error` | that class                  |
| MemoryError                   | 71                            | OutOfMemory                   |
| a library of an extra missing | 78                            | LibraryMissing                |
| SIGTERM                       | 75, within a second           | Terminated                    |
| Ctrl-C                        | 130                           | Interrupted                   |
| nobody reads our output       | 141, silently                 | BrokenPipe                    |
| SystemExit                    | what it carries               | Completed or Error            |
| any other exception           | 70, with its traceback        | Internal                      |
"""

import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import Final, NoReturn

from trainyard.contract import failure, logs, termination
from trainyard.contract.errors import TrainyardError, from_os_error
from trainyard.contract.exit_codes import ExitCode
from trainyard.contract.termination import TerminationMessage

Main = Callable[[Mapping[str, str], Sequence[str]], str | None]

STOP_WITHIN_SECONDS: Final = 0.8
"""After SIGTERM the work has this long to unwind; then the process ends all the same."""
_EXTRA_OF_LIBRARY: Final = dict.fromkeys(
    ("torch", "torchtune", "torchao", "safetensors", "tokenizers", "pyarrow", "numpy", "matplotlib"), "torchtune"
)
"""Library to the extra of ours that brings it."""
_INTERRUPTED: Final = 128 + signal.SIGINT
_BROKEN_PIPE: Final = 128 + signal.SIGPIPE

_log = logging.getLogger(__name__)


class Terminated(BaseException):
    """SIGTERM came. Not an Exception, so that no `except Exception` on the way takes it for a fault."""


def run_to_exit(
    main: Main,
    *,
    environ: Mapping[str, str] | None = None,
    argv: Sequence[str] | None = None,
    stop_within_seconds: float | None = STOP_WITHIN_SECONDS,
) -> NoReturn:
    """Run `main(environ, argv)` and end the process as the table above says.

    `environ` and `argv` default to this process' own. `stop_within_seconds` bounds the time between SIGTERM and the
    end even where the main thread hangs in foreign code; None leaves that to whoever sent the signal, for work that
    saves something first.
    """
    environment = os.environ if environ is None else environ
    arguments = sys.argv[1:] if argv is None else argv
    _raise_on_sigterm(environment, stop_within_seconds)
    hurried = False
    try:
        _configure_logs(environment)
        end = _completed(main(environment, arguments))
        sys.stdout.flush()
    except SystemExit as request:
        end = _of_system_exit(request)
    except BaseException as error:
        hurried = isinstance(error, Terminated | KeyboardInterrupt)
        end = _of_exception(error)
        if end.code != _BROKEN_PIPE:
            _say(error, end)
    _leave(end, environment, hurried=hurried)


def _configure_logs(environ: Mapping[str, str]) -> None:
    try:
        logs.configure(environ)
    except TrainyardError:
        logs.configure({})  # The error about the logs needs a log.
        raise


def _completed(summary: str | None) -> TerminationMessage:
    return replace(termination.for_exit_code(0), message=summary) if summary else termination.for_exit_code(0)


def _of_system_exit(request: SystemExit) -> TerminationMessage:
    if request.code is None or isinstance(request.code, int):
        return termination.for_exit_code(request.code or 0)
    return replace(termination.for_exit_code(1), message=str(request.code))


def _of_exception(error: BaseException) -> TerminationMessage:
    if isinstance(error, Terminated):
        text = "ended by SIGTERM before the work was done; run again to go on"
        return TerminationMessage(code=int(ExitCode.TRANSIENT), reason="Terminated", message=text, retryable=True)
    if isinstance(error, KeyboardInterrupt):
        return TerminationMessage(code=_INTERRUPTED, reason="Interrupted", message="interrupted", retryable=True)
    if isinstance(error, MemoryError):
        text = f"out of memory: {error}" if str(error) else "out of memory"
        return TerminationMessage(code=int(ExitCode.OUT_OF_MEMORY), reason="OutOfMemory", message=text, retryable=False)
    if isinstance(error, BrokenPipeError) and _output_is_gone():
        return TerminationMessage(code=_BROKEN_PIPE, reason="BrokenPipe", message="output closed", retryable=False)
    if isinstance(error, ModuleNotFoundError):
        library = (error.name or "").partition(".")[0]
        if extra := _EXTRA_OF_LIBRARY.get(library):
            text = f"this Python environment has no {library}; install it with: pip install 'trainyard[{extra}]'"
            return TerminationMessage(code=int(ExitCode.CONFIG), reason="LibraryMissing", message=text, retryable=False)
    if isinstance(error, OSError):
        place = f"use {os.fspath(error.filename)!r}" if isinstance(error.filename, str | bytes) else "run"
        return TerminationMessage.from_error(from_os_error(error, place))
    return TerminationMessage.from_error(error)


def _output_is_gone() -> bool:
    """Say whether the reader of our standard output or error has gone; EPIPE from a socket is another matter."""
    poller = select.poll()
    for descriptor in (1, 2):
        poller.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poller.poll(0))


def _say(error: BaseException, end: TerminationMessage) -> None:
    unexpected = end.code == ExitCode.INTERNAL and not isinstance(error, TrainyardError)
    _log.error("%s reason=%s exit_code=%d", end.message, end.reason, end.code, exc_info=error if unexpected else None)
    if not unexpected:
        _log.debug("where it came from", exc_info=error)


def _leave(end: TerminationMessage, environ: Mapping[str, str], *, hurried: bool) -> NoReturn:
    _record(end, environ)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    if end.code == _BROKEN_PIPE:
        # What is still buffered would fail again while the interpreter shuts down, with a message and code 120.
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
    if hurried:
        # Worker threads may still sit in a read; the interpreter would wait for them.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(end.code)
    sys.exit(end.code)


def _record(end: TerminationMessage, environ: Mapping[str, str]) -> None:
    scrubbed = replace(end, message=termination.scrub(end.message, termination.secrets_of(environ)))
    termination.write(scrubbed, environ)
    if scrubbed.code != 0:
        failure.record(scrubbed, environ)


def _raise_on_sigterm(environ: Mapping[str, str], stop_within_seconds: float | None) -> None:
    """Turn the first SIGTERM into `Terminated` in the main thread, and end the process if that does not."""
    if threading.current_thread() is not threading.main_thread():
        return
    received = False

    def raise_once(_signal: int, _frame: FrameType | None) -> None:
        nonlocal received
        if not received:
            received = True
            raise Terminated

    signal.signal(signal.SIGTERM, raise_once)
    reader = -1
    if stop_within_seconds is not None:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        # The C-level handler writes here even while the main thread is stuck outside Python.
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(
            target=_end_when_late, args=(reader, environ, stop_within_seconds), name="sigterm", daemon=True
        ).start()
    os.register_at_fork(before=_hold_sigterm, after_in_parent=_let_sigterm, after_in_child=_forget_sigterm)


def _hold_sigterm() -> None:
    """Keep a SIGTERM for a child just forked from reaching our handler in it, which would write into our pipe."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _let_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _forget_sigterm() -> None:
    """Give a forked child the default action back: its SIGTERM is not ours."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let_sigterm()


def _end_when_late(reader: int, environ: Mapping[str, str], stop_within_seconds: float) -> None:
    while signal.SIGTERM not in os.read(reader, 64):
        pass
    time.sleep(stop_within_seconds)
    end = _of_exception(Terminated())
    _record(end, environ)
    os._exit(end.code)
