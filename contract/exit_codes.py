"""The one table of exit codes: what a container's end says about who must act.

Numbers follow BSD sysexits(3) where it has a word for the case. All but TRANSIENT are permanent: running the same thing
again cannot help, so runtimes map them to FailJob in their podFailurePolicy.
"""

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """A container's exit code. `MEANING` has the sentence for each."""

    OK = 0
    USAGE = 64
    BAD_DATA = 65
    NOT_FOUND = 66
    INTEGRITY = 67
    DIVERGED = 68
    UNSUPPORTED = 69
    INTERNAL = 70
    OUT_OF_MEMORY = 71
    CANNOT_WRITE = 73
    NO_SPACE = 74
    TRANSIENT = 75
    ACCESS_DENIED = 77
    CONFIG = 78


MEANING: Final[dict[ExitCode, str]] = {
    ExitCode.OK: "done",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.BAD_DATA: "the dataset or the model files cannot be used",
    ExitCode.NOT_FOUND: "the source, or a file in it, does not exist",
    ExitCode.INTEGRITY: "bytes differ from the digest or size that the source promised",
    ExitCode.DIVERGED: "training produced NaN or infinity",
    ExitCode.UNSUPPORTED: "the request is understood and not supported",
    ExitCode.INTERNAL: "a bug: an exception that nobody expected",
    ExitCode.OUT_OF_MEMORY: "the model or batch does not fit in memory",
    ExitCode.CANNOT_WRITE: "the destination cannot be written",
    ExitCode.NO_SPACE: "the disk or quota is full",
    ExitCode.TRANSIENT: "a fault that may pass: network, 5xx, stall, preemption; retry",
    ExitCode.ACCESS_DENIED: "credentials are missing, wrong, or lack the right",
    ExitCode.CONFIG: "the configuration (environment, YAML, arguments) is wrong",
}

PERMANENT: Final[tuple[int, ...]] = tuple(
    sorted(code for code in ExitCode if code not in (ExitCode.OK, ExitCode.TRANSIENT))
)
"""What a podFailurePolicy lists under FailJob, in ascending order as Kubernetes demands."""


def describe(code: int) -> str:
    """Say what an exit code means: ours, a signal (128 + n), or a plain number."""
    if code in MEANING:
        return MEANING[ExitCode(code)]
    if code == 137:
        return "killed (SIGKILL): out of memory, or ended by hand"
    if code == 143:
        return "ended by SIGTERM"
    if 128 < code < 160:
        return f"killed by signal {code - 128}"
    return "an exit code of the program's own"
