"""What to try after a failure, by exit code: one line for people, printed below the failure."""

from typing import Final

from trainyard.contract.exit_codes import ExitCode

_BY_CODE: Final[dict[int, str]] = {
    ExitCode.USAGE: "check the command and arguments in spec.trainer",
    ExitCode.BAD_DATA: "check the dataset's columns and the model's files; the message names what was found",
    ExitCode.NOT_FOUND: "check storageUri and the paths in the arguments",
    ExitCode.INTEGRITY: "delete the staged folder and run again; if it stays, the source itself is damaged",
    ExitCode.DIVERGED: "lower the learning rate, clip gradients, or use fp32 instead of bf16",
    ExitCode.UNSUPPORTED: "choose one of what the message lists",
    ExitCode.INTERNAL: "the log has a traceback; if it points into trainyard, please report it",
    ExitCode.OUT_OF_MEMORY: "lower batch_size or tokenizer.max_seq_len, or quantize the base model",
    ExitCode.CANNOT_WRITE: "check owner and mode of the folder that the message names",
    ExitCode.NO_SPACE: "free some space, or choose another disk with --state-dir",
    ExitCode.TRANSIENT: "run it again: the fault may have passed",
    ExitCode.ACCESS_DENIED: "check the credentials: secretRef or env of the initializer, --secret NAME=DIR",
    ExitCode.CONFIG: "correct the value that the message names",
    1: "read the log: the program itself gave this code",
    126: "the command is there and cannot be executed: check its mode",
    127: "the command does not exist on this machine: check spec.trainer.command and what is installed",
    137: "it was killed: watch its memory, or lower batch_size",
    139: "it crashed in native code: check the versions of the compiled packages",
}


def advice(exit_code: int | None) -> str:
    """Say what to try; nothing where the code tells nothing."""
    return "" if exit_code is None else _BY_CODE.get(exit_code, "")
