"""The progress message and its client: how a container says how far it is.

Protocol: Kubeflow Trainer's KEP-2779. POST to `KUBEFLOW_TRAINER_SERVER_URL` with a bearer token read from the file
`KUBEFLOW_TRAINER_SERVER_TOKEN`, TLS checked against the CA file `KUBEFLOW_TRAINER_SERVER_CA_CERT`, body

    {"trainerStatus": {"lastUpdatedTime": "2026-11-21T10:00:00Z", "progressPercentage": 40,
                       "estimatedRemainingSeconds": 90, "metrics": [{"name": "loss", "value": "1.25"}]}}

200 means accepted. At most one message every 5 seconds, 256 metrics, values are strings.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trainyard.contract import env

MAX_METRICS: Final = 256
MAX_NAME_CHARS: Final = 64
MAX_VALUE_CHARS: Final = 64
MIN_INTERVAL_SECONDS: Final = 5.0
TIMEOUT_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a container is."""

    percent: int | None = None
    """0 to 100; None when unknown."""
    remaining_seconds: int | None = None
    """Estimate of the time left; None when unknown."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Name to value, such as {"loss": "1.25"}; both at most 64 characters."""

    def to_message(self, now: datetime) -> dict[str, Any]:
        """Build the JSON body, within the protocol's limits."""
        status: dict[str, Any] = {"lastUpdatedTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        if self.percent is not None:
            status["progressPercentage"] = min(100, max(0, self.percent))
        if self.remaining_seconds is not None:
            status["estimatedRemainingSeconds"] = max(0, self.remaining_seconds)
        status["metrics"] = [
            {"name": name[:MAX_NAME_CHARS], "value": value[:MAX_VALUE_CHARS]}
            for name, value in list(self.metrics.items())[:MAX_METRICS]
            if name and value
        ]
        return {"trainerStatus": status}


class ProgressClient:
    """Sends progress in the background, throttled; a failure is logged once and never raised.

    Inert when the environment names no server. `close` sends the last message that throttling held back.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        min_interval_seconds: float = MIN_INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = environ.get(env.SERVER_URL, "")
        self._ca_file = environ.get(env.SERVER_CA_CERT, "")
        self._token_file = environ.get(env.SERVER_TOKEN, "")
        self._min_interval_seconds = min_interval_seconds
        self._clock = clock
        self._pending: Progress | None = None
        self._closed = False
        self._warned = False
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def enabled(self) -> bool:
        """Say whether the environment names a server."""
        return bool(self._url)

    def report(self, progress: Progress) -> None:
        """Hand over the newest progress; returns at once."""
        if not self.enabled:
            return
        with self._wake:
            if self._closed:
                return
            self._pending = progress
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
                self._thread.start()
            self._wake.notify()

    def close(self) -> None:
        """Send what is left and stop, within the time of one request."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(TIMEOUT_SECONDS + 1)

    def _run(self) -> None:
        last_sent = float("-inf")
        while True:
            with self._wake:
                while not self._closed:
                    wait = last_sent + self._min_interval_seconds - self._clock()
                    if self._pending is not None and wait <= 0:
                        break
                    self._wake.wait(wait if self._pending is not None else None)
                progress, self._pending = self._pending, None
                closed = self._closed
            if progress is not None:
                self._send(progress)
                last_sent = self._clock()
            if closed:
                return

    def _send(self, progress: Progress) -> None:
        # Imported here: urllib.request costs 30 ms, and most programs that import the contract report nothing.
        import ssl
        import urllib.request

        try:
            headers = {"Content-Type": "application/json"}
            if self._token_file:
                token = Path(self._token_file).read_text(encoding="utf-8").strip()
                headers["Authorization"] = f"Bearer {token}"
            body = json.dumps(progress.to_message(datetime.now(UTC))).encode()
            request = urllib.request.Request(self._url, data=body, headers=headers, method="POST")
            https = self._url.startswith("https:")
            context = ssl.create_default_context(cafile=self._ca_file or None) if https else None
            handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
            if context is not None:
                handlers.append(urllib.request.HTTPSHandler(context=context))
            with urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT_SECONDS) as response:
                response.read()
        except Exception as error:  # Progress is a courtesy: whatever happens to it, the work goes on.
            if not self._warned:
                self._warned = True
                _log.warning("progress not accepted by the status server, going on without: %s", error)
