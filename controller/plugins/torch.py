"""Torch: the five PET_* variables with which torchrun finds its peers, in the trainer and in injection targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trainyard.contract import env, labels, names
from trainyard.controller.api.problem import Problem
from trainyard.controller.api.train_job import TrainJob
from trainyard.controller.container import field_variable, variable
from trainyard.controller.info import Info, PodSet
from trainyard.controller.reserved import reserved_variables
from trainyard.controller.resources import processes_per_node
from trainyard.controller.tune_command import is_tune_run
from trainyard.controller.wiring import wire_trainer

_TARGETS: Final = "spec.mlPolicy.torch.envInjection.targets"


class Torch:
    """Handles `mlPolicy.torch`."""

    policy = "torch"

    def validate(self, info: Info, old: TrainJob | None) -> Iterator[Problem]:
        """Refuse variables that are ours to set, and injection targets that the runtime does not have."""
        yield from reserved_variables(info, env.RESERVED_TORCH, "torch")
        for index, (job, containers) in enumerate(_injection_targets(info)):
            path = f"{_TARGETS}[{index}]"
            pod_set = info.pod_set(job)
            if pod_set is None:
                yield info.runtime_problem(f"{path}.jobName", f"the template has no replicated job {job!r}")
                continue
            for place, container in enumerate(containers):
                if pod_set.any_container(container) is None:
                    yield info.runtime_problem(
                        f"{path}.containerNames[{place}]",
                        f"the job {job!r} of the template has no container {container!r}",
                    )

    def enforce_ml_policy(self, info: Info) -> Info:
        """Set nodes and variables; `tune run` gets its rendezvous on the command line instead (plugin torchtune)."""
        info = wire_trainer(info)
        trainer = info.trainer
        node = trainer.main_container if trainer is not None else None
        if trainer is None or node is None:
            return info
        asked = info.train_job.spec.trainer.num_proc_per_node if info.train_job.spec.trainer else None
        workers = [
            variable(env.PET_NNODES, str(trainer.count)),
            variable(env.PET_NPROC_PER_NODE, processes_per_node(asked, node.resources)),
            field_variable(env.PET_NODE_RANK, f"metadata.annotations['{labels.JOB_COMPLETION_INDEX}']"),
        ]
        master = [
            variable(env.PET_MASTER_ADDR, info.hostname(trainer)),
            variable(env.PET_MASTER_PORT, str(names.MASTER_PORT)),
        ]
        injected = workers if is_tune_run(info.train_job) else workers + master
        node = node.with_env(injected).with_ports([{"containerPort": names.MASTER_PORT}])
        info = info.with_pod_set(trainer.with_container(node))
        for job, containers in _injection_targets(info):
            info = _inject(info, info.pod_set(job), containers, workers + master)
        return info


def _inject(info: Info, pod_set: PodSet | None, containers: list[str], entries: list[dict[str, Any]]) -> Info:
    for name in containers:
        container = pod_set.any_container(name) if pod_set is not None else None
        if pod_set is not None and container is not None:
            pod_set = pod_set.with_container(container.with_env(entries))
    return info if pod_set is None else info.with_pod_set(pod_set)


def _injection_targets(info: Info) -> list[tuple[str, list[str]]]:
    """Give (job, containers) for each target in the runtime's order."""
    policy = info.runtime.spec.ml_policy
    torch = policy.torch if policy is not None else None
    injection = torch.env_injection if torch is not None else None
    return [(target.job_name, list(target.container_names)) for target in injection.targets] if injection else []
