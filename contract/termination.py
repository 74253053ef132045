"""The termination message: one JSON object that says why a container ended.

    {"code": 66, "reason": "SourceNotFound", "message": "file:///data/x: no such folder", "retryable": false}

Kubernetes reads it from `/dev/termination-log` (at most 4096 bytes) into the pod's status; the local executor does the
same. Messages are scrubbed of every value that the environment holds under a secret's name, and of credentials in URLs.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainyard.contract import env, paths
from trainyard.contract.errors import TrainyardError
from trainyard.contract.exit_codes import ExitCode, describe

MAX_BYTES: Final = 4096
"""Kubernetes cuts a container's message here."""

_SECRET_NAME: Final = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|ACCESS_KEY|API_KEY|CREDENTIAL)", re.IGNORECASE)
_URL_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s@'\"]+@")
_SECRET_QUERY: Final = re.compile(
    r"(?i)([?&](?:x-amz-[a-z-]*|signature|sig|token|access_token|awsaccesskeyid)=)[^&\s'\"]+"
)
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_SHORTEST_SECRET: Final = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class TerminationMessage:
    """Why a container ended."""

    code: int
    """The exit code (`contract.exit_codes`)."""
    reason: str
    """CamelCase class of the failure, or `Completed`."""
    message: str
    """One sentence for people, without secrets."""
    retryable: bool
    """Whether running the same thing again may work."""

    @classmethod
    def from_error(cls, error: BaseException) -> "TerminationMessage":
        """Build the message for an exception; one that is not ours is an internal error."""
        if isinstance(error, TrainyardError):
            return cls(code=int(error.code), reason=error.reason, message=scrub(str(error)), retryable=error.retryable)
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return cls(code=int(ExitCode.INTERNAL), reason="Internal", message=scrub(text), retryable=False)

    @classmethod
    def parse(cls, text: str) -> "TerminationMessage | None":
        """Read a message back; None when the text is not one of ours."""
        try:
            raw = json.loads(text)
        except ValueError:
            return None
        if not isinstance(raw, dict) or not isinstance(raw.get("code"), int):
            return None
        return cls(
            code=raw["code"],
            reason=str(raw.get("reason", "")),
            message=str(raw.get("message", "")),
            retryable=bool(raw.get("retryable", False)),
        )

    def to_json(self) -> str:
        """Serialise to at most `MAX_BYTES` bytes; a long message loses its middle."""
        message = self.message
        while True:
            text = json.dumps(
                {"code": self.code, "reason": self.reason, "message": message, "retryable": self.retryable},
                ensure_ascii=False,
            )
            excess = len(text.encode("utf-8", "replace")) - MAX_BYTES
            if excess <= 0:
                return text
            keep = max(0, (len(message) - excess - 8) // 2)
            message = f"{message[:keep]} [...] {message[len(message) - keep :] if keep else ''}"
            if keep == 0:
                return json.dumps(
                    {"code": self.code, "reason": self.reason[:64], "message": "", "retryable": self.retryable}
                )


def for_exit_code(code: int) -> TerminationMessage:
    """Describe a program that left no message of its own."""
    return TerminationMessage(
        code=code,
        reason="Completed" if code == 0 else "Error",
        message=describe(code),
        retryable=code == ExitCode.TRANSIENT,
    )


def write(message: TerminationMessage, environ: Mapping[str, str]) -> None:
    """Write the message where `TERMINATION_LOG_PATH` says, else to `/dev/termination-log`.

    Does nothing when that place does not exist (a plain `docker run`) or cannot be written: the exit code still tells.
    """
    configured = environ.get(env.TERMINATION_LOG_PATH)
    path = Path(configured or paths.TERMINATION_LOG)
    if not configured and not path.exists():
        return
    try:
        path.write_text(message.to_json(), encoding="utf-8", errors="replace")
    except OSError:
        return


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Collect the values of variables whose names speak of a secret, longest first."""
    found = {
        value
        for name, value in environ.items()
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET and not value.startswith("/")
    }
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace secrets in a text: the given values, URL credentials, signed query values, authorization headers."""
    for value in secrets:
        if value:
            text = text.replace(value, "***")
    text = _URL_CREDENTIALS.sub("***@", text)
    text = _SECRET_QUERY.sub(r"\1***", text)
    return _BEARER.sub(r"\1 ***", text)
