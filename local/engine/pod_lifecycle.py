"""The life of one pod: init containers in order, sidecars around, main containers, restarts, readiness, the end.

Semantics are the kubelet's. Init containers run one after another, each to code 0; a sidecar (an init container with
restartPolicy Always) starts in its place in that order, must be up before the next one, and ends after the main
containers, last started first. restartPolicy Never ends the pod at the first failed init container, and when all main
containers have ended; OnFailure restarts a failed container with a growing delay and keeps the log of the run before
as `<container>.previous.log`.

    PodRun.start() -> phases Pending, Running -> Succeeded | Failed
    PodRun.stop()  -> SIGTERM to all, sidecars last, SIGKILL when the grace period is over -> Failed, `deleted`
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

from trainyard.contract.errors import TrainyardError, from_os_error
from trainyard.local.engine import clock
from trainyard.local.engine.container_run import ContainerRun, Role
from trainyard.local.engine.loop import Timer
from trainyard.local.engine.pod_world import PodWorld
from trainyard.local.pods.pod_instance import PodInstance

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]
DEFAULT_GRACE_SECONDS: Final = 30.0
REASON_DEADLINE: Final = "DeadlineExceeded"
REASON_INIT_FAILED: Final = "Init:Error"
REASON_NOT_PREPARED: Final = "CreateContainerConfigError"


class PodRun:
    """One attempt at one pod."""

    def __init__(self, pod: PodInstance, world: PodWorld, *, slot: int = 0) -> None:
        self.pod = pod
        self.slot = slot
        """Its number within its Job, also where the Job is NonIndexed."""
        self.phase: Phase = "Pending"
        self.reason = ""
        self.message = ""
        self.created_at = clock.now()
        self.finished_at: datetime | None = None
        self.deleted = False
        """Whether its end was asked for, so that a Job does not count it."""
        self._world = world
        self._restart_policy = str(pod.spec.get("restartPolicy") or "Always")
        grace = pod.spec.get("terminationGracePeriodSeconds")
        self._grace_seconds = DEFAULT_GRACE_SECONDS if grace is None else float(grace)
        self._init = [self._container(spec, is_init=True) for spec in pod.init_containers()]
        self._mains = [self._container(spec, is_init=False) for spec in pod.containers()]
        self._stopping = False
        self._failing = False
        self._kill_timer: Timer | None = None
        self._deadline_timer: Timer | None = None

    def _container(self, spec: Mapping[str, Any], *, is_init: bool) -> ContainerRun:
        role: Role = "main"
        if is_init:
            role = "sidecar" if spec.get("restartPolicy") == "Always" else "init"
        return ContainerRun(
            spec,
            role,
            pod=self.pod,
            grace_seconds=self._grace_seconds,
            world=self._world,
            on_change=self._advance,
        )

    @property
    def containers(self) -> list[ContainerRun]:
        """Give all containers, init containers first, in the manifest's order."""
        return [*self._init, *self._mains]

    @property
    def name(self) -> str:
        """Give the pod's name."""
        return self.pod.name

    @property
    def finished(self) -> bool:
        """Say whether nothing of it runs any more and nothing will."""
        return self.finished_at is not None

    @property
    def stopping(self) -> bool:
        """Say whether it is on its way to the end."""
        return self._stopping

    @property
    def ready(self) -> bool:
        """Say whether every main container and sidecar is ready."""
        if self.finished or self._stopping or self.phase != "Running":
            return False
        return all(container.ready for container in self.containers if container.role != "init")

    @property
    def restart_count(self) -> int:
        """Sum up the restarts of all its containers."""
        return sum(container.restart_count for container in self.containers)

    def start(self) -> None:
        """Prepare the containers and start the first one; a pod that cannot be prepared fails, with the reason."""
        try:
            prepared = self._world.prepare(self.pod)
        except (TrainyardError, OSError) as error:
            known = error if isinstance(error, TrainyardError) else from_os_error(error, f"prepare pod {self.name}")
            self.reason, self.message = REASON_NOT_PREPARED, str(known)
            self.containers[0].fail(known)
            self._begin_stop(None)
            return
        by_name = {container.name: container for container in (*prepared.init, *prepared.containers)}
        for container in self.containers:
            container.prepare(prepared, by_name[container.name])
        deadline = self.pod.spec.get("activeDeadlineSeconds")
        if deadline:
            self._deadline_timer = self._world.loop.call_later(float(deadline), self._deadline_passed)
        self._advance()

    def stop(self, grace_seconds: float | None = None) -> None:
        """Ask everything in it to end; after the grace period (the pod's, or a shorter one) it is killed."""
        if not self.finished:
            self.deleted = True
            self._begin_stop(grace_seconds)

    def kill(self) -> None:
        """End everything in it now."""
        self.stop(0.0)

    def to_status(self) -> dict[str, Any]:
        """Build its entry of pods.json."""
        status: dict[str, Any] = {
            "name": self.name,
            "replicatedJob": self.pod.replicated_job,
            "jobIndex": self.pod.job_index,
            "index": self.slot,
            "attempt": self.pod.attempt,
            "phase": self.phase,
            "ready": self.ready,
            "createdAt": clock.fine_stamp(self.created_at),
        }
        if self.finished_at is not None:
            status["finishedAt"] = clock.fine_stamp(self.finished_at)
        if self.reason:
            status["reason"] = self.reason
        if self.message:
            status["message"] = self.message
        status["containers"] = [container.to_status() for container in self.containers]
        return status

    # -- while it runs ------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Do whatever is due now. Called after every change; ends by telling the owner."""
        if not self.finished:
            if self._stopping:
                self._advance_stop()
            else:
                self._advance_run()
        self._world.changed()

    def _advance_run(self) -> None:
        for container in self._init:
            if container.role == "sidecar":
                self._keep_up(container)
                if not container.has_started and self.phase == "Pending":
                    return
            elif not self._passed(container):
                return
        self.phase = "Running"
        for container in self._mains:
            if container.is_new:
                container.start()
            if self._wants_restart(container):
                container.restart_later()
        if all(container.state == "terminated" for container in self._mains):
            self._begin_stop(None)

    def _passed(self, container: ContainerRun) -> bool:
        """Drive one init container; True when it has done its work."""
        if container.is_new:
            container.start()
        if container.state == "terminated" and not container.succeeded:
            if self._restart_policy == "Never":
                self.reason = REASON_INIT_FAILED
                self._begin_stop(None)
            else:
                container.restart_later()
        return container.succeeded

    @staticmethod
    def _keep_up(sidecar: ContainerRun) -> None:
        if sidecar.is_new:
            sidecar.start()
        if sidecar.state == "terminated":
            sidecar.restart_later()

    def _wants_restart(self, container: ContainerRun) -> bool:
        if container.state != "terminated":
            return False
        return self._restart_policy == "Always" or (self._restart_policy == "OnFailure" and not container.succeeded)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _deadline_passed(self) -> None:
        if not self._stopping:
            self.reason = REASON_DEADLINE
            self.message = "Pod was active on the node longer than the specified deadline"
            self._failing = True
            self._begin_stop(None)

    def _begin_stop(self, grace_seconds: float | None) -> None:
        grace = self._grace_seconds if grace_seconds is None else min(grace_seconds, self._grace_seconds)
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        if not self._stopping:
            self._stopping = True
            for container in self.containers:
                container.quieten()
            if self.deleted and any(container.state == "running" for container in self.containers):
                self._world.event("Normal", "Killing", f"Pod/{self.name}", "Stopping all containers")
        if grace <= 0:
            self._kill_all()
        else:
            self._kill_timer = self._world.loop.call_later(grace, self._kill_all)
        self._advance()

    def _advance_stop(self) -> None:
        running = [container for container in self.containers if container.state == "running"]
        others = [container for container in running if container.role != "sidecar"]
        for container in others or running[-1:]:  # Sidecars go after the others, last started first.
            container.terminate()
        if not running:
            self._finish()

    def _kill_all(self) -> None:
        for container in self.containers:
            container.kill()

    def _finish(self) -> None:
        for timer in (self._kill_timer, self._deadline_timer):
            if timer is not None:
                timer.cancel()
        self.finished_at = clock.now()
        succeeded = all(container.succeeded for container in self._mains) and not self._failing
        self.phase = "Succeeded" if succeeded else "Failed"
