"""Receives the progress of a job's containers, over the HTTP protocol that the cluster's status server speaks.

POST to `/apis/trainer.kubeflow.org/v1alpha1/namespaces/<ns>/trainjobs/<name>/status` on loopback, with the pod's own
bearer token, body `{"trainerStatus": {...}}`: the token says which pod speaks, so initializers and trainers send the
same message. Answers: 200 and the body back (an empty one changes nothing), 403 for a wrong token, 404 for another
job, 405 for other methods, 413 above 64 KiB, 422 with a sentence for a body that is not a status.

    server = ProgressServer("default", "job", on_report)     # on_report is called in the server's thread
    server.start(); ...; server.close()
"""

import hmac
import json
import secrets
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from trainyard.contract import names
from trainyard.contract.progress import MAX_METRICS, MAX_NAME_CHARS, MAX_VALUE_CHARS
from trainyard.local.pods.pod_instance import PodInstance

MAX_BODY_BYTES: Final = 64 * 1024
CLIENT_TIMEOUT_SECONDS: Final = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressReport:
    """One accepted message."""

    pod: PodInstance
    """The pod that sent it."""
    status: Mapping[str, Any]
    """The message's trainerStatus: lastUpdatedTime, progressPercentage, estimatedRemainingSeconds, metrics."""

    @property
    def status_field(self) -> str:
        """Name the field of the TrainJob's status that it belongs to."""
        initializers = (names.DATASET_INITIALIZER, names.MODEL_INITIALIZER)
        return "initializerStatus" if self.pod.ancestor in initializers else "trainerStatus"


class ProgressServer:
    """One job's status server: one thread, one request at a time."""

    def __init__(
        self,
        namespace: str,
        job: str,
        on_report: Callable[[ProgressReport], None],
        *,
        client_timeout_seconds: float = CLIENT_TIMEOUT_SECONDS,
    ) -> None:
        self._path = f"/apis/{names.API_VERSION}/namespaces/{namespace}/trainjobs/{job}/status"
        self._on_report = on_report
        self._tokens: dict[str, tuple[str, PodInstance]] = {}
        # Not http.server.HTTPServer: it asks DNS for this machine's name, which can take seconds.
        self._server = socketserver.TCPServer(("127.0.0.1", 0), self._handler(client_timeout_seconds))
        self._port = int(self._server.server_address[1])
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="progress-server", daemon=True)

    @property
    def url(self) -> str:
        """Give the address that containers post to."""
        return f"{self.origin}{self._path}"

    @property
    def origin(self) -> str:
        """Give scheme, host and port."""
        return f"http://127.0.0.1:{self._port}"

    def token(self, pod: PodInstance) -> str:
        """Give a pod's token, made at its first use; a later attempt of a pod has the same."""
        known = self._tokens.get(pod.name)
        token = known[0] if known is not None else secrets.token_urlsafe(32)
        self._tokens[pod.name] = (token, pod)
        return token

    def start(self) -> None:
        """Answer requests, in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering and release the port."""
        self._closing = True
        if self._thread.is_alive():
            with socket.create_connection(("127.0.0.1", self._port), timeout=CLIENT_TIMEOUT_SECONDS):
                pass  # Wakes the thread up.
            self._thread.join()
        self._server.server_close()

    def _serve(self) -> None:
        while not self._closing:
            self._server.handle_request()

    def answer(self, path: str, authorization: str, body: bytes) -> tuple[int, Mapping[str, Any]]:
        """Judge one POST: HTTP code and answer."""
        pod = self._speaker(authorization)
        if pod is None:
            return 403, _failure(403, "the bearer token is not one of this job's")
        if path != self._path:
            return 404, _failure(404, f"no such job at {path!r}; this server is at {self._path!r}")
        try:
            message = json.loads(body) if body.strip() else {}
        except ValueError as error:
            return 422, _failure(422, f"the body is not JSON: {error}")
        problem = _problem(message)
        if problem is not None:
            return 422, _failure(422, problem)
        if message.get("trainerStatus"):
            self._on_report(ProgressReport(pod=pod, status=message["trainerStatus"]))
        return 200, message

    def _speaker(self, authorization: str) -> PodInstance | None:
        scheme, _, given = authorization.partition(" ")
        speaker = None
        for token, pod in tuple(self._tokens.values()):  # All of them, so that the time tells nothing.
            if hmac.compare_digest(given.strip().encode(), token.encode()):
                speaker = pod
        return speaker if scheme.lower() == "bearer" else None

    def _handler(self, client_timeout_seconds: float) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            timeout = client_timeout_seconds

            def do_POST(self) -> None:
                length = self.headers.get("Content-Length", "")
                if not length.isdigit():
                    self._send(411, _failure(411, "Content-Length is missing"))
                elif int(length) > MAX_BODY_BYTES:
                    self._send(413, _failure(413, f"the body has {length} bytes; at most {MAX_BODY_BYTES} are taken"))
                else:
                    body = self.rfile.read(int(length))
                    self._send(*server.answer(self.path, self.headers.get("Authorization", ""), body))

            def do_GET(self) -> None:
                self._send(405, _failure(405, "only POST is answered"))

            do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET  # noqa: N815

            def _send(self, code: int, answer: Mapping[str, Any]) -> None:
                data = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: progress is not news."""

        return Handler


def _failure(code: int, message: str) -> dict[str, Any]:
    """Build the API server's form of a refusal."""
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}


def _problem(message: Any) -> str | None:
    """Say what is wrong with a message; None when it is a status."""
    if not isinstance(message, dict):
        return f"expected an object, got {type(message).__name__}"
    status = message.get("trainerStatus")
    if status is None:
        return None
    if not isinstance(status, dict):
        return f"trainerStatus: expected an object, got {type(status).__name__}"
    if not status:
        return None
    try:
        datetime.fromisoformat(status["lastUpdatedTime"])
    except (KeyError, TypeError, ValueError):
        return f"trainerStatus.lastUpdatedTime: expected a time, got {status.get('lastUpdatedTime')!r}"
    for name, most in (("progressPercentage", 100), ("estimatedRemainingSeconds", None)):
        value = status.get(name)
        if value is not None and (type(value) is not int or value < 0 or (most is not None and value > most)):
            limit = "" if most is None else f" and at most {most}"
            return f"trainerStatus.{name}: expected an integer of at least 0{limit}, got {value!r}"
    return _metrics_problem(status.get("metrics"))


def _metrics_problem(metrics: Any) -> str | None:
    if metrics is None:
        return None
    if not isinstance(metrics, list) or len(metrics) > MAX_METRICS:
        return f"trainerStatus.metrics: expected a list of at most {MAX_METRICS}"
    limits = {"name": MAX_NAME_CHARS, "value": MAX_VALUE_CHARS}
    for index, metric in enumerate(metrics):
        for field, limit in limits.items():
            text = metric.get(field) if isinstance(metric, dict) else None
            if not isinstance(text, str) or not 1 <= len(text) <= limit:
                return f"trainerStatus.metrics[{index}].{field}: expected 1 to {limit} characters, got {text!r}"
    return None
