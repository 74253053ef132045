"""torchrun in this process, with an end that tells the truth.

torchrun exits 1 whatever happened. Here the code and the reason of the rank that failed first come out: from the record
that ranks of ours leave (`contract.failure`), else from the codes of the processes, where those that a dying peer
causes (-15, -6, 1) are the least believed.
"""

import contextlib
import os
import socket
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trainyard.contract import env, failure
from trainyard.contract.exit_codes import ExitCode, describe
from trainyard.trainers.rank_failure import RankFailedError

_CONSEQUENCES: Final = (1, -6, -15)
"""What a process ends with when its peer has gone (an exception, abort, torchrun's SIGTERM), most telling first."""


def launch(arguments: Namespace, environ: Mapping[str, str] | None = None) -> None:
    """Run torchrun with its parsed arguments; returns when all ranks have ended well.

    `environ` is added to the environment of the ranks. Raises RankFailedError as `true_end` does.
    """
    # Imported here: torch takes a second.
    from torch.distributed.run import run

    with true_end(environ or {}):
        run(arguments)


@contextlib.contextmanager
def true_end(environ: Mapping[str, str]) -> Iterator[None]:
    """Run torchrun within this block, with `environ` added to the environment of its ranks.

    Raises RankFailedError with the code of the rank that failed first, 128 + n for signal n.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    with tempfile.TemporaryDirectory(prefix="trainyard-ranks-") as folder:
        try:
            with _environment({**environ, env.FAILURE_DIR: folder}):
                yield
        except ChildFailedError as error:
            # torchrun's own summary, for whoever is used to reading it.
            print(error, file=sys.stderr, flush=True)
            raise _blame(Path(folder), error.failures) from error
        except SignalException as error:
            raise _of_signal(Path(folder), int(error.sigval)) from error


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process for as long as the block runs; the ranks inherit them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _blame(folder: Path, failures: Mapping[int, Any]) -> RankFailedError:
    """Choose among the records of the ranks and what torchrun saw of its processes, by global rank."""
    record = failure.first(folder)
    if record is not None and record.termination.code != ExitCode.TRANSIENT:
        return RankFailedError.of_record(record)
    rank, worst = min(failures.items(), key=lambda item: (_weight(item[1].exitcode), item[1].timestamp))
    if record is not None and (_weight(worst.exitcode) > 0 or worst.exitcode == ExitCode.TRANSIENT):
        return RankFailedError.of_record(record)
    code = worst.exitcode if worst.exitcode > 0 else 128 - worst.exitcode
    where = f"rank {rank} on {socket.gethostname()}"
    said = "" if worst.exitcode < 0 else _last_line(worst.message)
    return RankFailedError(f"{where} ended with code {code}: {said or describe(code)}", code=code, reason="Error")


def _weight(exit_code: int) -> int:
    return _CONSEQUENCES.index(exit_code) + 1 if exit_code in _CONSEQUENCES else 0


def _last_line(message: object) -> str:
    """Take the sentence out of what a script under @record left; other scripts leave nothing but torchrun's advice."""
    text = message.get("message", "") if isinstance(message, dict) else message
    lines = [line for line in str(text).splitlines() if line.strip() and "To enable traceback" not in line]
    return lines[-1].strip() if lines else ""


def _of_signal(folder: Path, number: int) -> RankFailedError:
    """Say how a launcher that was told to stop ended: as its ranks did if they saved something, else by the signal."""
    record = failure.first(folder)
    if record is not None:
        return RankFailedError.of_record(record)
    return RankFailedError(
        f"torchrun on {socket.gethostname()}: {describe(128 + number)}", code=128 + number, reason="Terminated"
    )
