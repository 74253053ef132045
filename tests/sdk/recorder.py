"""A loopback stand-in for the Kubernetes API, just wide enough to record the TrainJob that the official SDK sends.

It serves our shipped runtimes as ClusterTrainingRuntimes and keeps what is posted. The SDK is the unmodified package.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from trainyard.controller.runtimes import shipped_runtimes

PREFIX = "/apis/trainer.kubeflow.org/v1alpha1/"
VERSION_CONFIG_MAP = "/api/v1/namespaces/kubeflow-system/configmaps/kubeflow-trainer-public"


class _Handler(BaseHTTPRequestHandler):
    runtimes: dict[str, Any]
    posted: list[dict[str, Any]]

    def _answer(self, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path == VERSION_CONFIG_MAP:
            self._answer(200, {"data": {"kubeflow_trainer_version": "2.3.0"}})
        elif path == PREFIX + "clustertrainingruntimes":
            self._answer(200, {"items": list(self.runtimes.values())})
        elif path.startswith(PREFIX + "clustertrainingruntimes/") and path.split("/")[-1] in self.runtimes:
            self._answer(200, self.runtimes[path.split("/")[-1]])
        else:
            self._answer(404, {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.posted.append(body)
        self._answer(201, body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def _serving() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    runtimes = {
        name: {**runtime.raw, "metadata": {**runtime.raw["metadata"], "uid": "0"}}
        for name, runtime in shipped_runtimes().items()
    }
    handler = type("Handler", (_Handler,), {"runtimes": runtimes, "posted": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", handler.posted
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def record(train: Callable[[Any], str]) -> dict[str, Any]:
    """Call `train` with a TrainerClient on the recorder; give the TrainJob that it posted."""
    from kubeflow.trainer import KubernetesBackendConfig, TrainerClient
    from kubernetes import client

    with _serving() as (url, posted):
        configuration = client.Configuration()
        configuration.host = url
        backend = KubernetesBackendConfig(namespace="default", client_configuration=configuration)
        train(TrainerClient(backend_config=backend))
    (job,) = posted
    return job
