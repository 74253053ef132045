"""The life of one pod: init containers in order, sidecars around, main containers, restarts, readiness, the end.

Semantics are the kubelet's. Init containers run one after another, each to code 0; a sidecar (an init container with
restartPolicy Always) starts in its place in that order, must be up before the next one, and ends after the main
containers, last started first. restartPolicy Never ends the pod at the first failed container; OnFailure restarts it
with a growing delay and keeps the log of the run before as `<container>.previous.log`.

    PodRun.start() -> phases Pending, Running -> Succeeded | Failed
    PodRun.stop()  -> SIGTERM to all, sidecars last, SIGKILL when the grace period is over -> Failed, `deleted`
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, Protocol

from trainyard.contract.errors import TrainyardError, from_os_error
from trainyard.contract.termination import TerminationMessage
from trainyard.local import clock
from trainyard.local.blame import ContainerFailure
from trainyard.local.container_run import (
    REASON_BACK_OFF,
    REASON_NOT_STARTED,
    ContainerRun,
)
from trainyard.local.launch import ContainerLaunch, ContainerProcess
from trainyard.local.loop import Loop, Timer
from trainyard.local.pod import PreparedContainer, PreparedPod
from trainyard.local.pod_instance import PodInstance
from trainyard.local.probe import Probe
from trainyard.local.timing import Timing

__all__ = ["ContainerFailure", "PodRun", "PodWorld"]

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]
DEFAULT_GRACE_SECONDS: Final = 30.0
REASON_DEADLINE: Final = "DeadlineExceeded"


class PodWorld(Protocol):
    """What a pod needs around it; the engine is one."""

    @property
    def loop(self) -> Loop:
        """The event loop."""

    @property
    def timing(self) -> Timing:
        """Delays."""

    def prepare(self, pod: PodInstance) -> PreparedPod:
        """Write a pod's files and say what to launch; raises TrainyardError or OSError."""

    def start(self, launch: ContainerLaunch) -> ContainerProcess:
        """Start a container; raises TrainyardError or OSError."""

    def event(self, kind: str, reason: str, about: str, message: str) -> None:
        """Record an event."""

    def container_failed(self, failure: ContainerFailure) -> None:
        """Hear of a container that failed by itself."""

    def changed(self) -> None:
        """Hear that something about a pod changed."""


@dataclass(kw_only=True, slots=True)
class _Timers:
    """Pending timers and probes of one container."""

    restart: Timer | None = None
    kill: Timer | None = None
    probes: list[Probe] = field(default_factory=list)

    def cancel(self) -> None:
        for timer in (self.restart, self.kill):
            if timer is not None:
                timer.cancel()
        self.restart = self.kill = None
        for probe in self.probes:
            probe.cancel()
        self.probes.clear()


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
        self._init = [self._container(spec, init=True) for spec in pod.spec.get("initContainers") or []]
        self._mains = [self._container(spec, init=False) for spec in pod.spec.get("containers") or []]
        self._timers = {container.name: _Timers() for container in self.containers}
        self._stopping = False
        self._failing = False
        self._prepared: PreparedPod | None = None
        self._kill_timer: Timer | None = None
        self._deadline_timer: Timer | None = None

    @staticmethod
    def _container(spec: dict[str, Any], *, init: bool) -> ContainerRun:
        sidecar = init and spec.get("restartPolicy") == "Always"
        role: Literal["init", "sidecar", "main"] = "sidecar" if sidecar else "init" if init else "main"
        return ContainerRun(name=spec["name"], role=role, spec=spec)

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
        """Say whether it was asked to end."""
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
        except TrainyardError as error:
            self._fail_unprepared(error)
            return
        except OSError as error:
            self._fail_unprepared(from_os_error(error, f"prepare pod {self.name}"))
            return
        self._prepared = prepared
        ready = {item.name: item for item in (*prepared.init, *prepared.containers)}
        for container in self.containers:
            container.prepared = ready[container.name]
        deadline = self.pod.spec.get("activeDeadlineSeconds")
        if deadline:
            self._deadline_timer = self._world.loop.call_later(float(deadline), self._deadline_passed)
        self._advance()

    def stop(self, grace_seconds: float | None = None) -> None:
        """Ask everything in it to end; after the grace period (the pod's, or a shorter one) it is killed."""
        if self.finished:
            return
        self.deleted = True
        self._begin_stop(grace_seconds)

    def kill(self) -> None:
        """End everything in it now."""
        if self.finished:
            return
        self.deleted = True
        self._begin_stop(0.0)

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

    # -- deciding -------------------------------------------------------------------------------------------------

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
        if self.phase == "Pending":
            self.phase = "Running"
        for container in self._mains:
            if self._failing:
                return
            if not container.has_run and container.state == "waiting":
                self._start(container)
            elif self._wants_restart(container):
                self._restart_later(container)
        if not self._failing and all(self._is_over(container) for container in self._mains):
            self._begin_stop(None)

    def _passed(self, container: ContainerRun) -> bool:
        """Drive one init container; True when it has done its work."""
        if container.succeeded:
            return True
        if not container.has_run and container.state == "waiting":
            self._start(container)
            return container.succeeded
        if container.state == "terminated":
            if self._restart_policy == "Never":
                self.reason = self.reason or "Init:Error"
                self._begin_stop(None)
            else:
                self._restart_later(container)
        return False

    def _keep_up(self, sidecar: ContainerRun) -> None:
        if not sidecar.has_run and sidecar.state == "waiting":
            self._start(sidecar)
        if sidecar.state == "terminated":
            self._restart_later(sidecar)

    def _wants_restart(self, container: ContainerRun) -> bool:
        if container.state != "terminated":
            return False
        if self._restart_policy == "Always":
            return True
        return self._restart_policy == "OnFailure" and container.exit_code != 0

    def _is_over(self, container: ContainerRun) -> bool:
        return container.state == "terminated" and not self._wants_restart(container)

    # -- one container --------------------------------------------------------------------------------------------

    def _start(self, container: ContainerRun) -> None:
        container.state, container.reason, container.message = "running", "", ""
        container.started_at, container.finished_at = clock.now(), None
        container.ended_by_us = False
        try:
            self._keep_log(container)
            assert container.prepared is not None
            container.process = self._world.start(container.prepared.launch)
        except (TrainyardError, OSError) as error:
            known = error if isinstance(error, TrainyardError) else from_os_error(error, f"start {container.name}")
            message = TerminationMessage.from_error(known)
            self._ended(container, message.code, message.to_json(), REASON_NOT_STARTED)
            return
        process = container.process
        self._world.loop.watch(process.fileno(), partial(self._poll, container, process))

    def _keep_log(self, container: ContainerRun) -> None:
        log = container.log_file
        if log is not None and log.exists():
            log.replace(log.with_suffix(".previous.log"))

    def _came_up(self, container: ContainerRun) -> None:
        """Take in that the command is executing: from now on it is ready, or probed."""
        container.is_up = True
        self._world.event("Normal", "Started", f"Pod/{self.name}", f"Started container {container.name}")
        startup = container.spec.get("startupProbe")
        if startup is None or self._stopping:
            container.has_started = True
            self._begin_readiness(container)
        else:
            self._add_probe(container, startup, partial(self._startup_verdict, container))

    def _add_probe(self, container: ContainerRun, spec: dict[str, Any], on_verdict: Callable[[bool], None]) -> None:
        assert self._prepared is not None and container.prepared is not None
        probe = Probe(
            spec,
            target=_Target(self._world, self._prepared, container.prepared),
            loop=self._world.loop,
            timing=self._world.timing,
            on_verdict=on_verdict,
        )
        self._timers[container.name].probes.append(probe)

    def _startup_verdict(self, container: ContainerRun, success: bool) -> None:
        if not success:
            self._end_unhealthy(container, "startup")
        else:
            container.has_started = True
            self._timers[container.name].cancel()
            self._begin_readiness(container)
            self._advance()

    def _begin_readiness(self, container: ContainerRun) -> None:
        readiness, liveness = container.spec.get("readinessProbe"), container.spec.get("livenessProbe")
        if readiness is None or container.role == "init":
            container.ready = True
        else:
            self._add_probe(container, readiness, partial(self._ready_verdict, container))
        if liveness is not None and container.role != "init":
            self._add_probe(container, liveness, partial(self._liveness_verdict, container))

    def _liveness_verdict(self, container: ContainerRun, success: bool) -> None:
        if not success:
            self._end_unhealthy(container, "liveness")

    def _end_unhealthy(self, container: ContainerRun, probe: str) -> None:
        """End a container whose probe failed; what follows is up to the pod's restartPolicy, as after any failure."""
        process, timers = container.process, self._timers[container.name]
        if process is None:
            return
        timers.cancel()
        message = f"Container {container.name} failed {probe} probe, will be restarted as the pod's restartPolicy says"
        self._world.event("Warning", "Unhealthy", f"Pod/{self.name}", message)
        process.terminate()
        timers.kill = self._world.loop.call_later(self._grace_seconds, process.kill)

    def _ready_verdict(self, container: ContainerRun, success: bool) -> None:
        container.ready = success
        self._advance()

    def _poll(self, container: ContainerRun, process: ContainerProcess) -> None:
        end = process.poll()
        if container.process is not process:
            return
        if process.is_started and not container.is_up:
            self._came_up(container)
            if end is None:
                self._advance()
        if end is None:
            return
        self._world.loop.unwatch(process.fileno())
        container.started_at = end.started_at
        self._ended(container, end.exit_code, end.message, end.reason, end.finished_at)
        self._advance()

    def _ended(
        self, container: ContainerRun, exit_code: int, message: str, reason: str, finished_at: datetime | None = None
    ) -> None:
        self._timers[container.name].cancel()
        process, container.process = container.process, None
        if process is not None:
            process.close()
        container.state, container.exit_code = "terminated", exit_code
        container.message, container.reason = message, reason
        container.finished_at = finished_at or clock.now()
        container.ready = container.is_up = False
        ran_seconds = (container.finished_at - (container.started_at or container.finished_at)).total_seconds()
        if ran_seconds >= self._world.timing.backoff_reset_seconds:
            container.failures_in_a_row = 0
        if exit_code == 0:
            return
        container.failures_in_a_row += 1
        if container.ended_by_us:
            return
        self._world.event(
            "Warning", "Failed", f"Pod/{self.name}", f"Container {container.name} ended with exit code {exit_code}"
        )
        self._world.container_failed(
            ContainerFailure(
                pod=self.name,
                container=container.name,
                replicated_job=self.pod.replicated_job,
                exit_code=exit_code,
                reason=reason,
                message=message,
                time=container.finished_at,
                log_file=container.log_file,
                attempt=self.pod.attempt,
            )
        )

    def _restart_later(self, container: ContainerRun) -> None:
        timers = self._timers[container.name]
        if timers.restart is not None:
            return
        delay = self._world.timing.backoff(max(1, container.failures_in_a_row))
        container.state, container.reason = "waiting", REASON_BACK_OFF
        container.restart_count += 1
        self._world.event(
            "Warning",
            "BackOff",
            f"Pod/{self.name}",
            f"Back-off restarting container {container.name} (exit code {container.exit_code}) for {delay:g} s",
        )

        def restart() -> None:
            timers.restart = None
            if not self._stopping:
                self._start(container)
                self._advance()

        timers.restart = self._world.loop.call_later(delay, restart)

    # -- the end --------------------------------------------------------------------------------------------------

    def _deadline_passed(self) -> None:
        if not self.finished and not self._stopping:
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
            for timers in self._timers.values():
                timers.cancel()
            if self.deleted and any(container.state == "running" for container in self.containers):
                self._world.event("Normal", "Killing", f"Pod/{self.name}", "Stopping all containers")
        if grace <= 0:
            self._kill_all()
        else:
            self._kill_timer = self._world.loop.call_later(grace, self._kill_all)
        self._advance()

    def _advance_stop(self) -> None:
        running = [container for container in self.containers if container.state == "running"]
        first = [container for container in running if container.role != "sidecar"]
        targets = first or running[-1:]  # Sidecars go after the others, last started first.
        for container in targets:
            if not container.ended_by_us and container.process is not None:
                container.ended_by_us = True
                container.process.terminate()
        if not running:
            self._finish()

    def _kill_all(self) -> None:
        for container in self.containers:
            if container.state == "running" and container.process is not None:
                container.ended_by_us = True
                container.process.kill()

    def _fail_unprepared(self, error: TrainyardError) -> None:
        message = TerminationMessage.from_error(error)
        container = (self._init or self._mains)[0]
        container.started_at = clock.now()
        self.reason, self.message = "CreateContainerConfigError", message.message
        self._ended(container, int(error.code), message.to_json(), REASON_NOT_STARTED)
        self._stopping = True
        self._advance()

    def _finish(self) -> None:
        for timer in (self._kill_timer, self._deadline_timer):
            if timer is not None:
                timer.cancel()
        for timers in self._timers.values():
            timers.cancel()
        self.finished_at = clock.now()
        succeeded = all(container.succeeded for container in self._mains) and not self._failing
        self.phase = "Succeeded" if succeeded else "Failed"


class _Target:
    """Where a probe of one container goes."""

    def __init__(self, world: PodWorld, pod: PreparedPod, container: PreparedContainer) -> None:
        self._world = world
        self._pod = pod
        self._container = container

    def address(self, host: str | None, port: int | str) -> tuple[str, int]:
        return self._pod.endpoint(host, port)

    def start_in_container(self, command: list[str]) -> ContainerProcess:
        log_file = self._pod.folder / f"{self._container.name}-probe.log"
        return self._world.start(self._container.exec_launch(command, log_file=log_file))
