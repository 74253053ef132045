"""The feature TrainJobStatus: what trainers need to report progress, and only with the feature on."""

from typing import Any

from trainyard.contract import names
from trainyard.contract.env import SERVER_CA_CERT, SERVER_TOKEN, SERVER_URL
from trainyard.controller.plan import Features, plan

ON = Features(train_job_status=True, status_server_url="http://127.0.0.1:8080/", status_server_ca="PEM")


def test_it_is_off_by_default(train_job: Any, runtime: Any, env_of: Any, node: Any) -> None:
    made = plan(train_job(), runtime())
    assert [manifest["kind"] for manifest in made.objects] == ["ConfigMap", "JobSet"]
    assert env_of(node(train_job(), runtime())) == {}


def test_every_container_of_the_trainer_gets_address_ca_and_token(
    train_job: Any, runtime: Any, replicated_job: Any, env_of: Any, node: Any
) -> None:
    pair = {"containers": [{"name": "node", "image": "i"}, {"name": "side", "image": "i"}]}
    offered = runtime(replicated_job("helper"), replicated_job("node", names.TRAINER, pod=pair))
    job = train_job(metadata={"namespace": "ns"})
    for container in ("node", "side"):
        found = node(job, offered, container=container, features=ON)
        assert env_of(found) == {
            SERVER_URL: "http://127.0.0.1:8080/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/demo/status",
            SERVER_CA_CERT: "/var/run/secrets/kubeflow/trainer/ca.crt",
            SERVER_TOKEN: "/var/run/secrets/kubeflow/trainer/token",
        }
        assert found["volumeMounts"] == [
            {"name": "kubeflow-trainer-token", "mountPath": "/var/run/secrets/kubeflow/trainer", "readOnly": True}
        ]
    assert env_of(node(job, offered, container="helper", features=ON)) == {}


def test_the_ca_comes_in_a_config_map_before_the_job_set(train_job: Any, runtime: Any) -> None:
    made = plan(train_job(), runtime(), features=ON)
    assert [manifest["metadata"]["name"] for manifest in made.objects] == [
        "demo-runtime-snapshot",
        "demo-tls-config",
        "demo",
    ]
    assert made.objects[1]["data"] == {"ca.crt": "PEM"}


def test_the_frameworks_variables_win(train_job: Any, runtime: Any, env_of: Any, node: Any) -> None:
    job = train_job(trainer={"env": [{"name": SERVER_URL, "value": "elsewhere"}]})
    assert env_of(node(job, runtime(), features=ON))[SERVER_URL].startswith("http://127.0.0.1:8080/apis/")
