"""The end of every command: user errors become sentences, bugs a short one, each with its exit code.

    0 done   1 the job (or the folder, for `verify`) failed   2 bad input   70 a bug   124 time ran out   130 Ctrl-C

`TRAINYARD_DEBUG=1` adds tracebacks.
"""

import errno
import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

import typer

from trainyard.contract.errors import TrainyardError
from trainyard.entrypoints.cli.terminal import Terminal

BAD_INPUT: Final = 2
FAILED: Final = 1
BUG: Final = 70
TIMED_OUT: Final = 124
INTERRUPTED: Final = 130

DEBUG: Final = "TRAINYARD_DEBUG"


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that it ends with a sentence and an exit code, never with a traceback for a user's error."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except TrainyardError as error:
            _debug()
            complain(sentences(error))
            raise typer.Exit(BAD_INPUT) from error
        except OSError as error:
            _debug()
            place = f"{error.filename}: " if error.filename else ""
            complain([f"{place}{error.strerror or error}"])
            raise typer.Exit(BAD_INPUT) from error
        except Exception as error:
            _debug()
            complain(
                [
                    f"trainyard met a bug: {type(error).__name__}: {error}".rstrip(": "),
                    f"run it again with {DEBUG}=1 to see where, and please report it",
                ]
            )
            raise typer.Exit(BUG) from error

    return run


def sentences(error: TrainyardError) -> list[str]:
    """Say what is wrong: a sentence for each problem, where the error knows several."""
    problems = getattr(error, "problems", None)
    return [str(problem) for problem in problems] if problems else [str(error)]


def complain(lines: list[str]) -> None:
    """Write errors to standard error, one line each."""
    _say("error:", "red", lines)


def warn(lines: list[str]) -> None:
    """Write warnings to standard error, one line each."""
    _say("warning:", "yellow", lines)


def _say(head: str, color: str, lines: list[str]) -> None:
    with outlived(sys.stderr):
        terminal = Terminal.of(sys.stderr, os.environ)
        for line in lines:
            terminal.print(f"{terminal.paint(head, color, 'bold')} {line}")


@contextmanager
def outlived(stream: TextIO) -> Iterator[None]:
    """Go on when a stream takes no more, so that the exit code says what was done, not whether somebody read of it."""
    try:
        yield
        stream.flush()
    except OSError as error:
        # What is still buffered must not be tried again when Python ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        if stream is not sys.stderr and not isinstance(error, BrokenPipeError) and error.errno != errno.EIO:
            complain([f"write the result: {error.strerror or error}"])


def _debug() -> None:
    if os.environ.get(DEBUG):
        import traceback

        traceback.print_exc()
