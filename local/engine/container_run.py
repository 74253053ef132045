"""One container of a pod: its process, its probes, its restarts, and what Kubernetes calls its status.

`pod_lifecycle` decides when it starts, restarts and ends; everything that happens to it is told through `on_change`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from trainyard.contract.errors import TrainyardError, from_os_error
from trainyard.contract.termination import TerminationMessage
from trainyard.local.containers.launch import ContainerProcess
from trainyard.local.engine import clock
from trainyard.local.engine.blame import ContainerFailure
from trainyard.local.engine.loop import Timer
from trainyard.local.engine.pod_world import PodWorld
from trainyard.local.engine.probe import Probe
from trainyard.local.pods.pod import PreparedContainer, PreparedPod
from trainyard.local.pods.pod_instance import PodInstance

Role = Literal["init", "sidecar", "main"]
State = Literal["waiting", "running", "terminated"]

REASON_INITIALIZING: Final = "PodInitializing"
REASON_BACK_OFF: Final = "CrashLoopBackOff"
REASON_NOT_STARTED: Final = "StartError"


class ContainerRun:
    """One container, over all its restarts within one pod."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        role: Role,
        *,
        pod: PodInstance,
        grace_seconds: float,
        world: PodWorld,
        on_change: Callable[[], None],
    ) -> None:
        self.name = str(spec["name"])
        self.role = role
        self.state: State = "waiting"
        self.reason = REASON_INITIALIZING
        self.message = ""
        self.exit_code: int | None = None
        self.restart_count = 0
        self.started_at: datetime | None = None
        self.finished_at: datetime | None = None
        self.has_started = False
        """Whether it was up once, and its startupProbe, if any, succeeded: what follows a sidecar may start."""
        self.ready = False
        self._spec = spec
        self._pod = pod
        self._about = f"Pod/{pod.name}"
        self._grace_seconds = grace_seconds
        self._world = world
        self._on_change = on_change
        self._prepared: PreparedContainer | None = None
        self._prepared_pod: PreparedPod | None = None
        self._process: ContainerProcess | None = None
        self._is_up = False
        self._ended_by_us = False
        self._failures_in_a_row = 0
        self._restart_timer: Timer | None = None
        self._kill_timer: Timer | None = None
        self._probes: list[Probe] = []

    @property
    def is_new(self) -> bool:
        """Say whether it was never started."""
        return self.started_at is None

    @property
    def succeeded(self) -> bool:
        """Say whether it ended with code 0."""
        return self.state == "terminated" and self.exit_code == 0

    def prepare(self, pod: PreparedPod, container: PreparedContainer) -> None:
        """Take what is to be launched."""
        self._prepared_pod, self._prepared = pod, container

    def start(self) -> None:
        """Start it; one that cannot be started has ended at once."""
        assert self._prepared is not None
        self.state, self.reason, self.message = "running", "", ""
        self.started_at, self.finished_at = clock.now(), None
        self._ended_by_us = False
        try:
            self._keep_log(self._prepared.launch.log_file)
            process = self._world.start(self._prepared.launch)
        except (TrainyardError, OSError) as error:
            self.fail(error if isinstance(error, TrainyardError) else from_os_error(error, f"start {self.name}"))
            return
        self._process = process
        self._world.loop.watch(process.fileno(), partial(self._poll, process))

    def restart_later(self) -> None:
        """Start it again after a delay that doubles with every failure."""
        if self._restart_timer is not None:
            return
        delay = self._world.timing.backoff(self._failures_in_a_row)
        self.state, self.reason = "waiting", REASON_BACK_OFF
        self.restart_count += 1
        message = f"Back-off restarting container {self.name} (exit code {self.exit_code}) for {delay:g} s"
        self._world.event("Warning", "BackOff", self._about, message)

        def restart() -> None:
            self._restart_timer = None
            self.start()
            self._on_change()

        self._restart_timer = self._world.loop.call_later(delay, restart)

    def terminate(self) -> None:
        """Ask it to end, once."""
        if self._process is not None and not self._ended_by_us:
            self._ended_by_us = True
            self._process.terminate()

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._ended_by_us = True
            self._process.kill()

    def quieten(self) -> None:
        """Restart and probe it no more."""
        for timer in (self._restart_timer, self._kill_timer):
            if timer is not None:
                timer.cancel()
        self._restart_timer = self._kill_timer = None
        for probe in self._probes:
            probe.cancel()
        self._probes.clear()

    def fail(self, error: TrainyardError) -> None:
        """End it as failed before it could start."""
        self.started_at = self.started_at or clock.now()
        message = TerminationMessage.from_error(error)
        self._ended(message.code, message.to_json(), REASON_NOT_STARTED, clock.now())

    def to_status(self) -> dict[str, Any]:
        """Build its entry of pods.json."""
        status: dict[str, Any] = {"name": self.name, "role": self.role, "state": self.state, "ready": self.ready}
        if self.exit_code is not None:
            status["exitCode"] = self.exit_code
        if self.reason and self.state != "running":
            status["reason"] = self.reason
        if self.message:
            status["message"] = self.message
        status["restartCount"] = self.restart_count
        if self._process is not None and self._is_up:
            status["pid"] = self._process.pid
        if self.started_at is not None:
            status["startedAt"] = clock.fine_stamp(self.started_at)
        if self.finished_at is not None:
            status["finishedAt"] = clock.fine_stamp(self.finished_at)
        return status

    # -- its process --------------------------------------------------------------------------------------------------

    @staticmethod
    def _keep_log(log: Path) -> None:
        if log.exists():
            log.replace(log.with_suffix(".previous.log"))

    def _poll(self, process: ContainerProcess) -> None:
        end = process.poll()
        if self._process is not process:
            return
        came_up = process.is_started and not self._is_up
        if came_up:
            self._came_up()
        if end is not None:
            self._world.loop.unwatch(process.fileno())
            self._process = None
            process.close()
            self.started_at = end.started_at
            self._ended(end.exit_code, end.message, end.reason, end.finished_at)
        if came_up or end is not None:
            self._on_change()

    def _came_up(self) -> None:
        """Take in that the command is executing: from now on it is ready, or probed."""
        self._is_up = True
        self._world.event("Normal", "Started", self._about, f"Started container {self.name}")
        startup = self._spec.get("startupProbe")
        if self._ended_by_us:
            return
        if startup is None:
            self._startup_verdict(True)
        else:
            self._probe(startup, self._startup_verdict)

    def _ended(self, exit_code: int, message: str, reason: str, finished_at: datetime) -> None:
        self.quieten()
        assert self.started_at is not None
        self.state, self.exit_code, self.message, self.reason = "terminated", exit_code, message, reason
        self.finished_at = finished_at
        self.ready = self._is_up = False
        if (finished_at - self.started_at).total_seconds() >= self._world.timing.backoff_reset_seconds:
            self._failures_in_a_row = 0
        if exit_code == 0:
            return
        self._failures_in_a_row += 1
        if self._ended_by_us:
            return
        text = f"Container {self.name} ended with exit code {exit_code}"
        self._world.event("Warning", "Failed", self._about, text)
        self._world.container_failed(
            ContainerFailure(
                pod=self._pod.name,
                container=self.name,
                replicated_job=self._pod.replicated_job,
                exit_code=exit_code,
                reason=reason,
                message=message,
                time=finished_at,
                log_file=None if self._prepared is None else self._prepared.launch.log_file,
                attempt=self._pod.attempt,
            )
        )

    # -- its probes ---------------------------------------------------------------------------------------------------

    def _probe(self, spec: Mapping[str, Any], on_verdict: Callable[[bool], None]) -> None:
        assert self._prepared_pod is not None and self._prepared is not None
        target = _Target(self._world, self._prepared_pod, self._prepared)
        probe = Probe(spec, target=target, loop=self._world.loop, timing=self._world.timing, on_verdict=on_verdict)
        self._probes.append(probe)

    def _startup_verdict(self, success: bool) -> None:
        if not success:
            self._end_unhealthy("startup")
            return
        self.quieten()
        self.has_started = True
        readiness, liveness = self._spec.get("readinessProbe"), self._spec.get("livenessProbe")
        if readiness is None or self.role == "init":
            self.ready = True
        else:
            self._probe(readiness, self._readiness_verdict)
        if liveness is not None and self.role != "init":
            self._probe(liveness, self._liveness_verdict)
        self._on_change()

    def _readiness_verdict(self, success: bool) -> None:
        self.ready = success
        self._on_change()

    def _liveness_verdict(self, success: bool) -> None:
        if not success:
            self._end_unhealthy("liveness")

    def _end_unhealthy(self, probe: str) -> None:
        """End it for a failed probe; what follows is up to the pod's restartPolicy, as after any failure."""
        process = self._process
        if process is None:
            return
        self.quieten()
        message = f"Container {self.name} failed {probe} probe, will be restarted as the pod's restartPolicy says"
        self._world.event("Warning", "Unhealthy", self._about, message)
        process.terminate()
        self._kill_timer = self._world.loop.call_later(self._grace_seconds, process.kill)


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
