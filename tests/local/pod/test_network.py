"""Who listens where, and what becomes of names and ports in commands."""

import json
import socket
from typing import Any

import pytest

from trainyard.contract.errors import TransientError
from trainyard.local.pods.port_reservation import PortReservation

HOST = "job-node-0-0.job"
PET = [
    {"name": "PET_MASTER_ADDR", "value": HOST},
    {"name": "PET_MASTER_PORT", "value": "29500"},
]


def test_each_pod_has_an_address_of_its_own_that_stays(make_pod: Any, make_context: Any) -> None:
    pods = [make_pod(index) for index in range(300)]
    first, second = make_context(*pods).network, make_context(*pods).network
    assert len(set(first.addresses.values())) == 300
    assert first.addresses == second.addresses
    assert all(64 <= int(address.split(".")[1]) < 192 for address in first.addresses.values())


def test_pods_can_listen_on_their_addresses(make_pod: Any, make_context: Any) -> None:
    pods = [make_pod(0), make_pod(1)]
    network = make_context(*pods).network
    with socket.create_server((network.addresses[pods[0].hostname], 0)) as first:
        port = first.getsockname()[1]
        with socket.create_server((network.addresses[pods[1].hostname], port)):
            pass


def test_two_jobs_and_two_nodes_never_share_a_port(make_pod: Any, make_context: Any) -> None:
    contexts = [make_context(make_pod(0), make_pod(1)) for _ in range(3)]  # The same job three times: the worst case.
    ports = [entry.actual for context in contexts for entry in context.network.ports]
    assert len(ports) == len(set(ports)) == 6
    assert all(entry.declared == 29500 for context in contexts for entry in context.network.ports)


def test_closing_gives_the_ports_back(make_pod: Any, make_context: Any) -> None:
    first = make_context(make_pod())
    port = first.network.ports[0].actual
    first.close()
    assert make_context(make_pod()).network.ports[0].actual == port


def test_a_reserved_port_is_free_for_whoever_will_listen_on_it() -> None:
    reservation = PortReservation()
    port = reservation.take("seed")
    with socket.socket() as server:  # Without SO_REUSEADDR, as the most careless server.
        server.bind(("", port))
        server.listen()
    reservation.close()


def test_a_port_in_use_is_not_picked() -> None:
    first = PortReservation()
    port = first.take("seed")
    first.close()
    with socket.create_server(("127.0.0.1", port)):
        second = PortReservation()
        assert second.take("seed") != port
        second.close()


def test_no_free_port_is_a_sentence() -> None:
    with pytest.raises(TransientError, match="reserve a port for seed: every port from 20000 to"):
        PortReservation().take("seed", avoid=range(65536))


def test_hosts_file_keeps_the_machine_and_names_every_pod(make_pod: Any, make_context: Any) -> None:
    network = make_context(make_pod(0), make_pod(1), paths="namespace").network
    lines = [line.split() for line in network.hosts_file().splitlines() if line and not line.startswith("#")]
    assert any("localhost" in line for line in lines)
    entry = next(line for line in lines if "job-node-0-1" in line)
    assert entry[0] == network.addresses["job-node-0-1"]
    assert entry[1] == "job-node-0-1.job"
    assert {"job-node-0-1.job.default.svc.cluster.local", "job-node-0-1"} < set(entry)


def replaced(make_pod: Any, make_context: Any, text: str, *, paths: str = "namespace", index: int = 1) -> str:
    """Replace in a text of pod 1 of two; actual ports are shown as P0 and P1, addresses as A0 and A1."""
    pods = [make_pod(0, env=PET), make_pod(1, env=PET)]
    context = make_context(*pods, paths=paths)
    variables = {entry["name"]: entry["value"] for entry in PET}
    result = context.network_text.in_text(text, pods[index], variables)
    for number, pod in enumerate(pods):
        result = result.replace(str(context.network.port(pod.hostname, 29500)), f"P{number}")
        result = result.replace(context.network.addresses[pod.hostname], f"A{number}")
    return result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("job-node-0-0.job:29500", "job-node-0-0.job:P0"),
        ("tcp://job-node-0-1.job.default.svc:29500/x", "tcp://job-node-0-1.job.default.svc:P1/x"),
        ("--rdzv_endpoint=localhost:29500", "--rdzv_endpoint=localhost:P1"),
        ("127.0.0.1:29500", "127.0.0.1:P1"),
        ("$PET_MASTER_ADDR:29500", "$PET_MASTER_ADDR:P0"),
        ("f'tcp://{addr}:29500'", "f'tcp://{addr}:P0'"),
        ("addr + ':29500'", "addr + ':P0'"),
        ('"tcp://" + host + ":29500"', '"tcp://" + host + ":P0"'),
        ("--master_port=29500", "--master_port=P0"),
        ("torchrun --master-port 29500 x.py", "torchrun --master-port P0 x.py"),
        ("os.environ['MASTER_PORT'] = '29500'", "os.environ['MASTER_PORT'] = 'P0'"),
        ("setdefault('MASTER_PORT', '29500')", "setdefault('MASTER_PORT', 'P0')"),
    ],
)
def test_rendezvous_ports_are_replaced(make_pod: Any, make_context: Any, text: str, expected: str) -> None:
    assert replaced(make_pod, make_context, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "example.com:29500",
        "--steps=29500",
        "job-node-0-0.job:8080",
        "localhost:8000",
        "job-node-0-0.job:295001",
        "x-job-node-0-0.job",
        "2026-01-01T10:29:50",
        '{"steps":29500, "size": 29500}',
    ],
)
def test_other_numbers_and_hosts_stay(make_pod: Any, make_context: Any, text: str) -> None:
    assert replaced(make_pod, make_context, text, paths="mapped") == text.replace("job-node-0-0.job:", "A0:")


def test_names_become_addresses_only_where_no_hosts_file_can_be_mounted(make_pod: Any, make_context: Any) -> None:
    text = "ping job-node-0-0.job, job-node-0-1.job.default; ls out/job-node-0-0"
    assert replaced(make_pod, make_context, text) == text
    assert replaced(make_pod, make_context, text, paths="mapped") == "ping A0, A1; ls out/job-node-0-0"


def test_variables_that_name_a_rendezvous(make_pod: Any, make_context: Any) -> None:
    cluster = {"cluster": {"worker": ["job-node-0-0.job:2222", "job-node-0-1.job:2222"]}, "task": {"index": 1}}
    variables = {
        "PET_MASTER_ADDR": HOST,
        "PET_MASTER_PORT": "29500",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29400",
        "JAX_COORDINATOR_ADDRESS": f"{HOST}:1234",
        "DMLC_TRACKER_URI": HOST,
        "DMLC_TRACKER_PORT": "29500",
        "TF_CONFIG": json.dumps(cluster),
        "STEPS": "29500",
    }
    entries = [{"name": name, "value": value} for name, value in variables.items()]
    pods = [make_pod(0, env=entries), make_pod(1, env=entries)]
    context = make_context(*pods, paths="namespace")
    port = context.network.port
    result = context.network_text.in_environment(variables, pods[1])
    assert result["PET_MASTER_PORT"] == result["DMLC_TRACKER_PORT"] == str(port("job-node-0-0", 29500))
    assert result["MASTER_PORT"] == str(port("job-node-0-1", 29400)) != "29400"
    assert result["JAX_COORDINATOR_ADDRESS"] == f"{HOST}:{port('job-node-0-0', 1234)}"
    workers = json.loads(result["TF_CONFIG"])["cluster"]["worker"]
    assert workers == [f"{pod.hostname}.job:{port(pod.hostname, 2222)}" for pod in pods]
    assert len(set(workers)) == 2 and "2222" not in {worker.split(":")[1] for worker in workers}
    assert result["STEPS"] == "29500"


def test_a_port_flag_of_its_own_word_is_replaced(make_pod: Any, make_context: Any) -> None:
    pod = make_pod(0)
    context = make_context(pod)
    words = context.network_text.in_words(["torchrun", "--master_port", "29500", "x.py", "29500"], pod, {})
    assert words == ("torchrun", "--master_port", str(context.network.port(pod.hostname, 29500)), "x.py", "29500")


def test_ports_of_a_foreign_master_stay(make_pod: Any, make_context: Any) -> None:
    pod = make_pod(0)
    variables = {"MASTER_ADDR": "gpu7.example.com", "MASTER_PORT": "29500"}
    assert make_context(pod).network_text.in_environment(variables, pod) == variables
