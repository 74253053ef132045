"""mpirun with an end that tells the truth: the real program, started as it stands.

Open MPI gives the exit code of a rank that failed, but no reason, and 1 when a signal stopped it. Here the record
that ranks of ours leave (`contract.failure`) comes out, and 128 + n after signal n. Nothing else is changed.
"""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from trainyard.contract import env, failure
from trainyard.contract.errors import ConfigError
from trainyard.contract.exit_codes import describe
from trainyard.trainers.rank_failure import RankFailedError

_NAME: Final = "mpirun"
_FORWARDED: Final = (signal.SIGTERM, signal.SIGINT)
_SHIM_MARK: Final = b"trainyard.entrypoints.mpirun"
_SHIM_MOST_BYTES: Final = 4096


def launch(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run the real mpirun with these arguments; returns when it has ended well.

    Raises RankFailedError with the code and reason of the rank that failed first, ConfigError when there is no mpirun.
    """
    program = find_real(environ)
    with tempfile.TemporaryDirectory(prefix="trainyard-ranks-") as folder:
        variables = {**environ, env.FAILURE_DIR: folder}
        with subprocess.Popen([program, *arguments], env=variables) as process, _forwarding(process) as received:
            code = process.wait()
        record = failure.first(Path(folder))
    if code == 0 and not received:
        return
    if record is not None:
        raise RankFailedError.of_record(record)
    if received:
        code = 128 + received[0]
    elif code < 0:
        code = 128 - code
    if code != 0:
        raise RankFailedError(f"{_NAME} ended with code {code}: {describe(code)}", code=code, reason="Error")


def find_real(environ: Mapping[str, str]) -> str:
    """Find the mpirun that this command stands before on PATH.

    Raises ConfigError when there is none.
    """
    for folder in environ.get("PATH", "").split(":"):
        found = shutil.which(_NAME, path=folder) if folder else None
        if found is not None and not _is_shim(Path(found)):
            return found
    raise ConfigError(f"{_NAME}: no {_NAME} on PATH; install Open MPI in this environment or image")


def _is_shim(file: Path) -> bool:
    if file.stat().st_size > _SHIM_MOST_BYTES:
        return False
    return _SHIM_MARK in file.read_bytes()


@contextmanager
def _forwarding(process: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Pass signals on to mpirun, which ends its ranks; gives the list of those that came."""
    received: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in _FORWARDED}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
