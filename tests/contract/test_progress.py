import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from trainyard.contract import env
from trainyard.contract.progress import MAX_METRICS, Progress, ProgressClient


class StatusServer:
    """A real HTTP server that keeps what it is sent; answers 500 first where `failures` says so."""

    def __init__(self, failures: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.received: list[tuple[str | None, dict[str, Any]]] = []
        self.arrived = threading.Condition()
        outer = self
        remaining = [failures]

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                code = 200
                if remaining[0]:
                    remaining[0] -= 1
                    code = 500
                with outer.arrived:
                    outer.received.append((self.headers["Authorization"], body))
                    outer.arrived.notify_all()
                self.send_response(code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}/status"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def wait_for(self, count: int) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.received) >= count, timeout=10)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def server() -> Iterator[StatusServer]:
    server = StatusServer()
    yield server
    server.close()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("secret-token\n")
    return file


def test_message_follows_the_protocol() -> None:
    now = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
    message = Progress(percent=140, remaining_seconds=9, metrics={"loss": "1.25"}).to_message(now)
    assert message == {
        "trainerStatus": {
            "lastUpdatedTime": "2026-11-21T10:00:00Z",
            "progressPercentage": 100,
            "estimatedRemainingSeconds": 9,
            "metrics": [{"name": "loss", "value": "1.25"}],
        }
    }


def test_message_stays_within_the_limits() -> None:
    metrics = {f"m{i}": "v" * 100 for i in range(300)} | {"": "x"}
    (status,) = Progress(metrics=metrics).to_message(datetime.now(UTC)).values()
    assert len(status["metrics"]) <= MAX_METRICS
    assert all(len(metric["value"]) <= 64 for metric in status["metrics"])


def test_reports_arrive_with_the_token(server: StatusServer, token: Path) -> None:
    client = ProgressClient({env.SERVER_URL: server.url, env.SERVER_TOKEN: str(token)})
    client.report(Progress(percent=1))
    server.wait_for(1)
    client.close()
    authorization, body = server.received[0]
    assert authorization == "Bearer secret-token"
    assert body["trainerStatus"]["progressPercentage"] == 1


def test_throttling_keeps_the_newest_and_close_sends_it(server: StatusServer) -> None:
    client = ProgressClient({env.SERVER_URL: server.url}, min_interval_seconds=3600)
    client.report(Progress(percent=0))
    server.wait_for(1)
    for percent in range(1, 100):
        client.report(Progress(percent=percent))
    client.close()
    assert [body["trainerStatus"]["progressPercentage"] for _, body in server.received] == [0, 99]


def test_a_refusal_is_logged_once_and_never_raised(caplog: pytest.LogCaptureFixture) -> None:
    server = StatusServer(failures=2)
    client = ProgressClient({env.SERVER_URL: server.url}, min_interval_seconds=0)
    for count in range(1, 4):
        client.report(Progress(percent=count))
        server.wait_for(count)
    client.close()
    server.close()
    assert len([record for record in caplog.records if "not accepted" in record.message]) == 1


def test_a_missing_token_file_is_not_raised(server: StatusServer, tmp_path: Path) -> None:
    client = ProgressClient({env.SERVER_URL: server.url, env.SERVER_TOKEN: str(tmp_path / "absent")})
    client.report(Progress(percent=1))
    client.close()
    assert server.received == []


def test_without_a_server_nothing_happens() -> None:
    client = ProgressClient({})
    client.report(Progress(percent=1))
    client.close()
    assert not client.enabled


@pytest.mark.parametrize("trusted", [True, False])
def test_tls_is_checked_against_the_given_authority(tmp_path: Path, trusted: bool) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    bundle = tmp_path / "ca.crt"
    (authority if trusted else stranger).cert_pem.write_to_path(str(bundle))
    server = StatusServer(tls=context)
    server.server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    client = ProgressClient({env.SERVER_URL: server.url, env.SERVER_CA_CERT: str(bundle)})
    client.report(Progress(percent=1))
    client.close()
    server.close()
    assert len(server.received) == (1 if trusted else 0)
