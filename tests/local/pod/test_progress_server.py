"""The status server, spoken to over HTTP by our client and by hand."""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainyard.contract.progress import Progress, ProgressClient
from trainyard.local.pods.progress_server import MAX_BODY_BYTES, ProgressReport, ProgressServer

STATUS = {
    "lastUpdatedTime": "2026-11-21T10:00:00Z",
    "progressPercentage": 40,
    "estimatedRemainingSeconds": 90,
    "metrics": [{"name": "loss", "value": "1.25"}],
}
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/job/status"


class Running:
    def __init__(self, **options: float) -> None:
        self.reports: list[ProgressReport] = []
        self.server = ProgressServer("default", "job", self.reports.append, **options)
        self.server.start()

    def post(self, token: str | None, body: bytes | str, *, path: str = PATH, method: str = "POST") -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.server.origin.removeprefix("http://"), timeout=10)
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, json.loads(text) if text else None


@pytest.fixture
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.server.close()


def test_the_token_says_which_pod_speaks(running: Running, make_pod: Any) -> None:
    pods = [make_pod(0), make_pod(1)]
    tokens = [running.server.token(pod) for pod in pods]
    assert tokens[0] != tokens[1]
    assert running.server.token(pods[0]) == tokens[0]
    assert running.post(tokens[1], json.dumps({"trainerStatus": STATUS})) == (200, {"trainerStatus": STATUS})
    assert [(report.pod.name, report.status, report.status_field) for report in running.reports] == [
        ("job-node-0-1", STATUS, "trainerStatus")
    ]


def test_our_client_is_understood(running: Running, make_pod: Any, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(running.server.token(make_pod(0)))
    environ = {
        "KUBEFLOW_TRAINER_SERVER_URL": running.server.url,
        "KUBEFLOW_TRAINER_SERVER_TOKEN": str(token_file),
    }
    client = ProgressClient(environ)
    client.report(Progress(percent=12, remaining_seconds=3, metrics={"loss": "0.5"}))
    client.close()
    (report,) = running.reports
    assert report.status["progressPercentage"] == 12
    assert report.status["metrics"] == [{"name": "loss", "value": "0.5"}]


def test_an_empty_body_changes_nothing(running: Running, make_pod: Any) -> None:
    token = running.server.token(make_pod(0))
    assert running.post(token, "{}") == (200, {})
    assert running.post(token, "") == (200, {})
    assert running.reports == []


@pytest.mark.parametrize("token", [None, "", "wrong", "wröng"])
def test_a_wrong_token_is_forbidden(running: Running, make_pod: Any, token: str | None) -> None:
    running.server.token(make_pod(0))
    assert (
        running.post(token.encode().decode("latin-1") if token else token, json.dumps({"trainerStatus": STATUS}))[0]
        == 403
    )
    assert running.reports == []


def test_another_job_is_not_found(running: Running, make_pod: Any) -> None:
    token = running.server.token(make_pod(0))
    assert running.post(token, "{}", path=PATH.replace("/job/", "/other/"))[0] == 404


def test_other_methods_are_not_answered(running: Running, make_pod: Any) -> None:
    token = running.server.token(make_pod(0))
    assert [running.post(token, "", method=method)[0] for method in ("GET", "PUT", "DELETE", "HEAD")] == [405] * 4


def test_a_large_body_is_refused_unread(running: Running, make_pod: Any) -> None:
    token = running.server.token(make_pod(0))
    assert running.post(token, "x" * (MAX_BODY_BYTES + 1))[0] == 413
    assert running.post(token, " " * MAX_BODY_BYTES)[0] == 200


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("not json", "the body is not JSON"),
        ("[]", "expected an object, got list"),
        ({"trainerStatus": 3}, "trainerStatus: expected an object"),
        ({"lastUpdatedTime": None}, "lastUpdatedTime: expected a time, got None"),
        ({"lastUpdatedTime": "soon"}, "lastUpdatedTime: expected a time, got 'soon'"),
        ({"progressPercentage": 101}, "progressPercentage: expected an integer of at least 0 and at most 100, got 101"),
        ({"progressPercentage": 1.5}, "progressPercentage"),
        ({"progressPercentage": True}, "progressPercentage"),
        ({"estimatedRemainingSeconds": -1}, "estimatedRemainingSeconds: expected an integer of at least 0, got -1"),
        ({"metrics": [{"name": "n", "value": "v"}] * 257}, "metrics: expected a list of at most 256"),
        ({"metrics": [{"name": "", "value": "v"}]}, "metrics[0].name: expected 1 to 64 characters"),
        ({"metrics": [{"name": "n", "value": 0.5}]}, "metrics[0].value"),
        ({"metrics": ["x"]}, "metrics[0].name"),
    ],
)
def test_a_body_that_is_no_status_is_refused_with_its_place(
    running: Running, make_pod: Any, change: Any, sentence: str
) -> None:
    token = running.server.token(make_pod(0))
    if isinstance(change, dict):
        change = json.dumps(change if "trainerStatus" in change else {"trainerStatus": {**STATUS, **change}})
    code, answer = running.post(token, change)
    assert code == 422
    assert sentence in answer["message"]
    assert running.reports == []


def test_a_client_that_says_nothing_is_dropped(make_pod: Any) -> None:
    running = Running(client_timeout_seconds=0.2)
    token = running.server.token(make_pod(0))
    host, port = running.server.origin.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as silent:
        silent.sendall(b"POST")
        assert running.post(token, "{}")[0] == 200
    running.server.close()


def test_a_server_that_never_started_can_be_closed() -> None:
    ProgressServer("default", "job", print).close()
