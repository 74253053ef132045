"""Small pods and contexts, with everything real behind them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainyard.local.containers.isolation import Isolation
from trainyard.local.pods.job_context import JobContext, open_job_context
from trainyard.local.pods.pod_instance import PodInstance

MakePod = Callable[..., PodInstance]
MakeContext = Callable[..., JobContext]


@pytest.fixture
def make_pod() -> MakePod:
    """Build pod `job-node-0-<index>` with one container `node`, whose fields are the keywords."""

    def make(index: int = 0, *, pod: dict[str, Any] | None = None, job: str = "job", **container: Any) -> PodInstance:
        spec = {"containers": [{"name": "node", "image": "python", "command": ["true"], **container}], **(pod or {})}
        name = f"{job}-node-0-{index}"
        return PodInstance(
            namespace="default",
            name=name,
            job=f"{job}-node-0",
            hostname=name,
            subdomain=job,
            replicated_job="node",
            completion_index=index,
            labels={"team": "blue"},
            annotations={"batch.kubernetes.io/job-completion-index": str(index)},
            ancestor="trainer",
            uid="7e1f",
            spec=spec,
        )

    return make


@pytest.fixture
def make_context(tmp_path: Path) -> Iterator[MakeContext]:
    """Open contexts of jobs below `tmp_path`, mapped unless said otherwise; they are closed at the end."""
    opened: list[JobContext] = []

    def make(*pods: PodInstance, paths: str = "mapped", job: str = "job", claims: tuple[str, ...] = (), **options: Any):
        job_set = {
            "metadata": {"name": job, "namespace": "default"},
            "spec": {"volumeClaimPolicies": [{"templates": [{"metadata": {"name": claim}} for claim in claims]}]},
        }
        options = {"environ": {"PATH": os.environ["PATH"], "HOME": "/home/someone"}, "devices": "cpu", **options}
        context = open_job_context(
            job_set,
            pods,
            folder=tmp_path / "state" / "default" / job,
            state_dir=tmp_path / "state",
            isolation=options.pop("isolation", None) or Isolation(paths=paths),
            **options,
        )
        opened.append(context)
        return context

    yield make
    for context in opened:
        context.close()
