import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from trainyard.initializers.config import InitializerConfig
from trainyard.initializers.dataset import initialize_dataset
from trainyard.initializers.reporting import reporting, size, to_line, to_message
from trainyard.storage.progress import StageProgress

HALF = StageProgress(
    files=1, files_total=4, bytes=2 * 1024**3, bytes_total=4 * 1024**3, bytes_moved=1024**3, seconds=8.0
)
UNKNOWN = StageProgress(files=7, files_total=None, bytes=5000, bytes_total=None, bytes_moved=5000, seconds=0.0)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB"), (1024**5, "1024.0 TiB")],
)
def test_sizes_are_for_people(count: int, text: str) -> None:
    assert size(count) == text


def test_a_line_says_how_far_how_fast_and_how_long() -> None:
    assert to_line(HALF) == "50 % 2.0 GiB/4.0 GiB files=1/4 rate=128.0 MiB/s remaining=16s"
    assert to_line(UNKNOWN) == "4.9 KiB files=7 rate=0 B/s"


def test_the_message_has_percent_remaining_and_metrics() -> None:
    message = to_message(HALF)
    assert (message.percent, message.remaining_seconds) == (50, 16)
    assert dict(message.metrics) == {"bytes": str(2 * 1024**3), "files": "1", "bytes_per_second": str(128 * 1024**2)}
    assert to_message(UNKNOWN).percent is None


def test_lines_come_by_time_not_by_file(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    with caplog.at_level(logging.INFO), reporting("dataset", {}, clock=lambda: now) as observe:
        for _ in range(120):
            now += 0.1
            observe(HALF)
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith("staging the dataset: 50 % ")


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append(json.loads(body)["trainerStatus"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/status", received
        http.shutdown()
        thread.join()


def test_the_status_server_hears_of_the_end(tmp_path: Path, server: tuple[str, list[dict[str, Any]]]) -> None:
    url, received = server
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a").write_bytes(b"x" * 1000)
    environ = {
        "STORAGE_URI": str(tmp_path / "source"),
        "OUTPUT_PATH": str(tmp_path / "out"),
        "KUBEFLOW_TRAINER_SERVER_URL": url,
    }
    initialize_dataset(InitializerConfig.for_dataset(environ), environ)
    assert received[-1]["progressPercentage"] == 100
    assert {"name": "bytes", "value": "1000"} in received[-1]["metrics"]
