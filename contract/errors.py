"""Errors with an exit code. Raise where the fact is known; entrypoints turn them into the container's end.

Two questions choose the class: is it the user's input (`ConfigError`), and could the same call work later
(`TransientError`)? Messages are one sentence: what was done, to which object, what was found, what was expected.
"""

from typing import ClassVar

from trainyard.contract.exit_codes import ExitCode


class TrainyardError(Exception):
    """Base of every error that we raise on purpose. `str(error)` is the sentence for people, without secrets."""

    code: ClassVar[ExitCode] = ExitCode.INTERNAL

    @property
    def retryable(self) -> bool:
        """Say whether the same call may work later."""
        return self.code is ExitCode.TRANSIENT

    @property
    def reason(self) -> str:
        """Name the class of failure in CamelCase, as Kubernetes names reasons: `SourceNotFound`."""
        return type(self).__name__.removesuffix("Error")


class UsageError(TrainyardError):
    """The command line is wrong."""

    code = ExitCode.USAGE


class ConfigError(TrainyardError):
    """Environment, YAML or arguments are wrong; the message names the variable or field."""

    code = ExitCode.CONFIG


class BadDataError(TrainyardError):
    """A dataset or model file is there and cannot be used."""

    code = ExitCode.BAD_DATA


class SourceNotFoundError(TrainyardError):
    """A source, or a file that must be in it, does not exist."""

    code = ExitCode.NOT_FOUND


class IntegrityError(TrainyardError):
    """Bytes differ from the promised digest or size."""

    code = ExitCode.INTEGRITY


class DivergedError(TrainyardError):
    """Training produced NaN or infinity."""

    code = ExitCode.DIVERGED


class UnsupportedError(TrainyardError):
    """The request is understood and not supported; the message lists what is."""

    code = ExitCode.UNSUPPORTED


class OutOfMemoryError(TrainyardError):
    """The model or batch does not fit; the message has the estimate and what to lower."""

    code = ExitCode.OUT_OF_MEMORY


class CannotWriteError(TrainyardError):
    """A destination cannot be written, or holds something that is not ours to replace."""

    code = ExitCode.CANNOT_WRITE


class NoSpaceError(TrainyardError):
    """Disk or quota is full; the message says how much was needed and how much was free."""

    code = ExitCode.NO_SPACE


class AccessDeniedError(TrainyardError):
    """Credentials are missing, wrong, or lack the right."""

    code = ExitCode.ACCESS_DENIED


class TransientError(TrainyardError):
    """A fault that may pass; a retry can help."""

    code = ExitCode.TRANSIENT


def from_os_error(error: OSError, doing: str) -> TrainyardError:
    """Translate an OSError into the class that says who must act.

    `doing` is the sentence's beginning, such as `write '/workspace/model/a.safetensors'`.
    """
    import errno

    detail = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpaceError(f"{doing}: {detail}; free some space or give the volume more, then run again")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG):
        return CannotWriteError(f"{doing}: {detail}")
    if error.errno == errno.ENOENT:
        return SourceNotFoundError(f"{doing}: {detail}")
    return TransientError(f"{doing}: {detail}")
