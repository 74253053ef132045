"""The error with which a launcher ends: the code and reason of the rank that failed first."""

import socket

from trainyard.contract.errors import TrainyardError
from trainyard.contract.exit_codes import ExitCode
from trainyard.contract.failure import RankFailure


class RankFailedError(TrainyardError):
    """A process that a launcher started has failed; carries its code and reason."""

    def __init__(self, message: str, *, code: int, reason: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc, assignment]
        self._reason = reason

    @classmethod
    def of_record(cls, record: RankFailure) -> "RankFailedError":
        """Take over what the rank itself has left."""
        termination = record.termination
        message = f"rank {record.rank} on {socket.gethostname()}: {termination.message}"
        return cls(message, code=termination.code, reason=termination.reason)

    @property
    def retryable(self) -> bool:
        """Say whether the same call may work later."""
        return self.code == ExitCode.TRANSIENT

    @property
    def reason(self) -> str:
        """Give the failed rank's own reason, or Error."""
        return self._reason
