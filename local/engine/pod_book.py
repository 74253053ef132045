"""All pods that a job has had: the newest of each name, how many there were before it, and who failed."""

import uuid
from typing import Any

from trainyard.contract import labels
from trainyard.local.engine.blame import ContainerFailure
from trainyard.local.engine.job import JobRun
from trainyard.local.engine.job_set_spec import JobSetSpec
from trainyard.local.engine.pod_lifecycle import PodRun
from trainyard.local.engine.pod_template import pod_instance
from trainyard.local.engine.pod_world import PodWorld


class PodBook:
    """Makes pods and remembers them."""

    def __init__(self, spec: JobSetSpec, world: PodWorld) -> None:
        self._spec = spec
        self._world = world
        self._job_set_uid = str(uuid.uuid4())
        self._replicated = {job.name: job for job in spec.replicated_jobs}
        self._order = {job.name: index for index, job in enumerate(spec.replicated_jobs)}
        self._newest: dict[str, PodRun] = {}
        self._failures: list[ContainerFailure] = []

    def create(self, job: JobRun, slot: int, *, restarts: int) -> PodRun:
        """Make the pod of a Job's slot, not started yet."""
        replicated = self._replicated[job.replicated_job]
        name = pod_instance(self._spec, replicated, job.index, slot).name
        before = self._newest.get(name)
        instance = pod_instance(
            self._spec,
            replicated,
            job.index,
            slot,
            restarts=restarts,
            attempt=0 if before is None else before.pod.attempt + 1,
            job_set_uid=self._job_set_uid,
            uid=str(uuid.uuid4()),
        )
        pod = PodRun(instance, self._world, slot=slot)
        self._newest[name] = pod
        return pod

    def add_failure(self, failure: ContainerFailure) -> None:
        """Remember a container that failed by itself."""
        self._failures.append(failure)

    def last_failure(self, pod: str) -> ContainerFailure | None:
        """Give the newest failure of the pods of a name."""
        return next((failure for failure in reversed(self._failures) if failure.pod == pod), None)

    def standing_failures(self, *, restarts: int) -> list[ContainerFailure]:
        """List the failures that count: of each pod's last attempt since the last restart, not cured since."""
        standing = []
        for failure in self._failures:
            pod = self._newest[failure.pod]
            since_restart = pod.pod.labels[labels.RESTART_ATTEMPT] == str(restarts)
            if since_restart and any(
                one.name == failure.container and one.finished_at == failure.time for one in pod.containers
            ):
                standing.append(failure)
        return standing

    def running(self) -> list[str]:
        """Name the pods that have not ended."""
        return [pod.name for pod in self._newest.values() if not pod.finished]

    def statuses(self) -> list[dict[str, Any]]:
        """Build pods.json, in the order of the spec."""
        pods = sorted(
            self._newest.values(), key=lambda pod: (self._order[pod.pod.replicated_job], pod.pod.job_index, pod.slot)
        )
        return [pod.to_status() for pod in pods]
