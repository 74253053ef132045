"""Readiness, startup and liveness probes: tcpSocket, httpGet and exec, without blocking the loop.

A try is one non-blocking connection, or one short container for `exec`. Until it succeeds a probe is tried at least
every `Timing.probe_period_seconds`; after that, every `periodSeconds`. Failing means what it means on a cluster: for
`failureThreshold` periods, however often it was tried in them.
"""

import errno
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from trainyard.local.containers.launch import ContainerProcess
from trainyard.local.engine.loop import Loop, Timer
from trainyard.local.engine.timing import Timing

Report = Callable[[bool], None]


class ProbeTarget(Protocol):
    """Where a container of a pod is reached."""

    def address(self, host: str | None, port: int | str) -> tuple[str, int]:
        """Turn a probe's host and port (number or name) into a real address."""

    def start_in_container(self, command: list[str]) -> ContainerProcess:
        """Start a command beside the container, in its environment and file system."""


class Probe:
    """Tries until cancelled, and reports when the verdict changes."""

    def __init__(
        self, spec: Mapping[str, Any], *, target: ProbeTarget, loop: Loop, timing: Timing, on_verdict: Report
    ) -> None:
        self._spec = spec
        self._target = target
        self._loop = loop
        self._on_verdict = on_verdict
        self._period_seconds = float(spec.get("periodSeconds") or 10)
        self._eager_period_seconds = min(self._period_seconds, timing.probe_period_seconds)
        self._timeout_seconds = float(spec.get("timeoutSeconds") or 1)
        self._success_threshold = int(spec.get("successThreshold") or 1)
        self._patience_seconds = (int(spec.get("failureThreshold") or 3) - 1) * self._period_seconds
        self._successes = 0
        self._failing_since: float | None = None
        self._verdict: bool | None = None
        self._cancelled = False
        self._end_try: Callable[[], None] | None = None
        self._timer = loop.call_later(float(spec.get("initialDelaySeconds") or 0), self._try)

    def cancel(self) -> None:
        """Stop trying."""
        self._cancelled = True
        self._timer.cancel()
        self._finish_try()

    def _finish_try(self) -> None:
        end, self._end_try = self._end_try, None
        if end is not None:
            end()

    def _try(self) -> None:
        try:
            if "exec" in self._spec:
                self._try_exec()
            elif "httpGet" in self._spec:
                self._try_connection(self._spec["httpGet"], http=True)
            elif "tcpSocket" in self._spec:
                self._try_connection(self._spec["tcpSocket"], http=False)
            else:
                self._report(True)  # grpc: nobody to ask; running counts as ready.
        except Exception:
            self._finish_try()
            self._report(False)

    def _report(self, success: bool) -> None:
        if self._cancelled:
            return
        now = time.monotonic()
        verdict = self._verdict
        if success:
            self._successes, self._failing_since = self._successes + 1, None
            if self._successes >= self._success_threshold:
                verdict = True
        else:
            self._successes = 0
            self._failing_since = now if self._failing_since is None else self._failing_since
            if now - self._failing_since >= self._patience_seconds:
                verdict = False
        period = self._period_seconds if verdict else self._eager_period_seconds
        self._timer = self._loop.call_later(period, self._try)
        if verdict is not None and verdict != self._verdict:
            self._verdict = verdict
            self._on_verdict(verdict)

    def _begin_try(self, cleanup: Callable[[], None]) -> None:
        timer: Timer = self._loop.call_later(self._timeout_seconds, lambda: self._done(False))

        def end() -> None:
            timer.cancel()
            cleanup()

        self._end_try = end

    def _done(self, success: bool) -> None:
        if self._end_try is None:
            return
        self._finish_try()
        self._report(success)

    def _try_connection(self, where: Mapping[str, Any], *, http: bool) -> None:
        host, port = self._target.address(where.get("host"), where["port"])
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.setblocking(False)
        fileno = connection.fileno()

        def cleanup() -> None:
            self._loop.unwatch(fileno)
            connection.close()

        self._begin_try(cleanup)
        answer = bytearray()

        def connected() -> None:
            if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0:
                self._done(False)
                return
            if not http:
                self._done(True)
                return
            path = where.get("path") or "/"
            headers = "".join(f"{h['name']}: {h['value']}\r\n" for h in where.get("httpHeaders") or [])
            connection.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n".encode())
            self._loop.unwatch(fileno)
            self._loop.watch(fileno, answered)

        def answered() -> None:
            try:
                chunk = connection.recv(4096)
            except OSError:
                chunk = b""
            answer.extend(chunk)
            if b"\n" in answer or not chunk:
                words = bytes(answer).split(None, 2)
                self._done(len(words) > 1 and words[1].isdigit() and 200 <= int(words[1]) < 400)

        code = connection.connect_ex((host, port))
        if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            raise OSError(code, os.strerror(code))
        self._loop.watch(fileno, connected, writable=True)

    def _try_exec(self) -> None:
        process = self._target.start_in_container([str(word) for word in self._spec["exec"]["command"]])
        fileno = process.fileno()

        def cleanup() -> None:
            self._loop.unwatch(fileno)
            process.close()  # Its keeper kills what still runs.

        self._begin_try(cleanup)

        def ended() -> None:
            end = process.poll()
            if end is not None:
                self._done(end.exit_code == 0)

        self._loop.watch(fileno, ended)
