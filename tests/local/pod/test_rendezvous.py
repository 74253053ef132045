"""torchrun across the nodes of a job, for real: gloo all-reduce, in both isolations, two jobs at once."""

import select
import time
from typing import Any

import pytest

from trainyard.local.containers.isolation import detect_isolation
from trainyard.local.containers.launch import start
from trainyard.local.pods.pod import prepare_pod

pytestmark = pytest.mark.trainer

LIMIT_SECONDS = 240
SUM = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
# One write for the whole line: ranks share the log.
print(f"sum {value.item()} of {dist.get_world_size()}\\n", end="", flush=True)
dist.destroy_process_group()
"""
# The command of the SDK's function trainer: the source in a heredoc, written to the working directory.
FUNCTION = f"""
read -r -d '' SCRIPT << EOM

{SUM}
EOM
printf "%s" "$SCRIPT" > "train.py"
torchrun "train.py\""""


def nodes(make_pod: Any, job: str, command: list[str], *, master: bool = True) -> list[Any]:
    index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    env = [
        {"name": "PET_NNODES", "value": "2"},
        {"name": "PET_NPROC_PER_NODE", "value": "2"},
        {"name": "PET_NODE_RANK", "valueFrom": index},
    ]
    if master:
        env += [
            {"name": "PET_MASTER_ADDR", "value": f"{job}-node-0-0.{job}"},
            {"name": "PET_MASTER_PORT", "value": "29500"},
        ]
    return [make_pod(number, job=job, command=command, env=env) for number in range(2)]


def run_all(pods: list[Any], contexts: dict[str, Any], isolation: Any) -> list[str]:
    launches = [prepare_pod(pod, contexts[pod.subdomain]).containers[0].launch for pod in pods]
    processes = [start(launch, isolation) for launch in launches]
    try:
        deadline = time.monotonic() + LIMIT_SECONDS
        running = list(processes)
        while running and time.monotonic() < deadline:
            select.select(running, [], [], 1)
            running = [process for process in running if process.poll() is None]
        logs = [launch.log_file.read_text() for launch in launches]
        ends = [process.poll() for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [end.exit_code if end else None for end in ends] == [0] * len(pods), "\n".join(logs)
    return logs


@pytest.mark.parametrize("paths", sorted({detect_isolation().paths, "mapped"}))
def test_two_jobs_of_two_nodes_of_two_processes_at_once(make_pod: Any, make_context: Any, paths: str) -> None:
    isolation = detect_isolation(paths)
    jobs = {
        "one": nodes(make_pod, "one", ["bash", "-c", FUNCTION]),
        "two": nodes(make_pod, "two", ["bash", "-c", FUNCTION]),
    }
    contexts = {job: make_context(*pods, job=job, isolation=isolation) for job, pods in jobs.items()}
    logs = run_all([*jobs["one"], *jobs["two"]], contexts, isolation)
    for log in logs:
        assert log.count("sum 10.0 of 4") == 2, log


def test_a_rendezvous_given_as_a_flag(make_pod: Any, make_context: Any) -> None:
    isolation = detect_isolation()
    script = f"cat > train.py << 'EOM'\n{SUM}\nEOM\n"
    script += "torchrun --rdzv_endpoint=flag-node-0-0.flag:29500 train.py"
    pods = nodes(make_pod, "flag", ["bash", "-c", script], master=False)
    logs = run_all(pods, {"flag": make_context(*pods, job="flag", isolation=isolation)}, isolation)
    for log in logs:
        assert log.count("sum 10.0 of 4") == 2, log


def test_single_node_jobs_without_any_rendezvous_do_not_meet(make_pod: Any, make_context: Any) -> None:
    isolation = detect_isolation()
    script = f"cat > train.py << 'EOM'\n{SUM}\nEOM\ntorchrun --nproc_per_node=2 train.py"
    pods = [make_pod(job=job, command=["bash", "-c", script]) for job in ("one", "two")]
    contexts = {pod.subdomain: make_context(pod, job=pod.subdomain, isolation=isolation) for pod in pods}
    for log in run_all(pods, contexts, isolation):
        assert log.count("sum 3.0 of 2") == 2, log
