"""Runs one job to its end: one event loop around TrainJob, JobSet, Jobs and pods, and what it writes down.

The rules are elsewhere (`train_job_run`, `job_set`, `job`, `pod_lifecycle`), and how a pod becomes processes is the
`Machine`'s business. The engine turns the world's events into calls, and calls `advance` until nothing changes.

    engine = Engine(folder=..., train_job=..., job_set=..., machine=..., observer=...)
    engine.run()          # returns when no process of the job is left
"""

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from trainyard.local.containers.launch import ContainerLaunch, ContainerProcess
from trainyard.local.containers.survivors import kill_survivors
from trainyard.local.engine.blame import ContainerFailure
from trainyard.local.engine.job import JobRun
from trainyard.local.engine.job_set_spec import JobSetSpec
from trainyard.local.engine.loop import Loop
from trainyard.local.engine.observer import Observer, Snapshot
from trainyard.local.engine.pod_book import PodBook
from trainyard.local.engine.pod_lifecycle import PodRun
from trainyard.local.engine.record import Record
from trainyard.local.engine.signals import caught
from trainyard.local.engine.timing import Timing
from trainyard.local.engine.train_job_run import TrainJobRun
from trainyard.local.pods.pod import PreparedPod
from trainyard.local.pods.pod_instance import PodInstance
from trainyard.local.store import job_folder as files
from trainyard.local.store.control import ControlPipe, Request
from trainyard.local.store.expiry import note_expiry
from trainyard.local.store.job_folder import JobFolder

_MOST_ROUNDS = 10_000
"""Rounds until a job must have settled: a fault in the rules shows as an error and not as a hot CPU."""


class Machine(Protocol):
    """How pods become processes here."""

    def prepare(self, pod: PodInstance) -> PreparedPod:
        """Write a pod's files and say what to launch."""

    def start(self, launch: ContainerLaunch) -> ContainerProcess:
        """Start a container."""

    def close(self) -> None:
        """Release what the job's pods shared."""


class Engine:
    """One job's run. Everything but `report_progress` and `interrupt` belongs to the loop's thread."""

    def __init__(
        self,
        *,
        folder: JobFolder,
        train_job: Mapping[str, Any],
        job_set: JobSetSpec,
        machine: Machine,
        observer: Observer | None = None,
        warnings: Sequence[str] = (),
        timing: Timing | None = None,
    ) -> None:
        self.loop = Loop()
        self.timing = timing or Timing()
        self.pods = PodBook(job_set, self)
        self.stopped_by: int | None = None
        """The signal that ended the run; None otherwise."""
        self._folder = folder
        self._spec = job_set
        self._about = f"TrainJob/{job_set.name}"
        self._machine = machine
        self._warnings = warnings
        self._record = Record(
            folder, self.loop, observer, interval_seconds=self.timing.status_interval_seconds, job=job_set.name
        )
        self._run = TrainJobRun(job_set, train_job, self)
        self._changed = True

    # -- from outside -------------------------------------------------------------------------------------------------

    @property
    def succeeded(self) -> bool:
        """Say whether the job is Complete."""
        return self._run.succeeded

    def run(self, *, signals: Sequence[signal.Signals] = (), on_started: Callable[[], None] | None = None) -> None:
        """Run the job until nothing of it is left; `signals` stop it.

        `on_started` is called when the first status is written.
        """
        control = None
        with caught(signals, self.interrupt):
            try:
                self._folder.claim()
                self._run.begin()
                for warning in self._warnings:
                    self.event("Warning", "Warning", self._about, warning)
                control = self._open_control()
                self._record.write(self.snapshot, strict=True)
                if on_started is not None:
                    on_started()
                self.loop.run(self._after_turn)
                note_expiry(self._folder, self._spec)
            except BaseException as error:
                kill_survivors(self._folder.path)
                self._run.fail(f"the local executor failed: {type(error).__name__}: {error}")
                self._record.write(self.snapshot, final=True)
                raise
            finally:
                self._machine.close()
                if control is not None:
                    control.close()
                self._folder.remove(files.SECRETS)
                self.loop.close()

    def snapshot(self) -> Snapshot:
        """Build what status.json and pods.json hold."""
        return Snapshot(train_job=self._run.to_dict(), pods=self.pods.statuses())

    def report_progress(self, step: str, message: Mapping[str, Any]) -> None:
        """Take a step's progress message; may be called from any thread."""
        self.loop.call_soon_threadsafe(lambda: self._run.take_progress(step, message))

    def interrupt(self, signum: int) -> None:
        """Stop the job because of a signal; a second one ends everything at once. Safe in a signal handler."""
        self.loop.call_soon_threadsafe(lambda: self._interrupted(signum))

    # -- what pods, Jobs and the TrainJob need: PodWorld, JobWorld, TrainJobWorld ----------------------------------

    def prepare(self, pod: PodInstance) -> PreparedPod:
        """Write a pod's files and say what to launch."""
        return self._machine.prepare(pod)

    def start(self, launch: ContainerLaunch) -> ContainerProcess:
        """Start a container."""
        return self._machine.start(launch)

    def create_pod(self, job: JobRun, slot: int) -> PodRun:
        """Make the pod of a Job's slot, not started yet."""
        pod = self.pods.create(job, slot, restarts=self._run.job_set.restarts)
        if pod.pod.attempt:
            self._run.retrying(pod.name)
        return pod

    def event(self, kind: str, reason: str, about: str, message: str) -> None:
        """Record an event."""
        self._record.event(kind, reason, about, message)

    def container_failed(self, failure: ContainerFailure) -> None:
        """Remember a container that failed by itself."""
        self.pods.add_failure(failure)

    def changed(self) -> None:
        """Look at everything again before the loop waits."""
        self._changed = True

    # -- what happens -------------------------------------------------------------------------------------------------

    def _after_turn(self) -> None:
        rounds = 0
        while self._changed:
            self._changed = False
            self._record.touch()
            self._run.advance()
            rounds += 1
            if rounds > _MOST_ROUNDS:
                raise RuntimeError(f"{self._about} does not settle")
        self._record.write(self.snapshot, final=self._run.done)
        if self._run.done:
            self.loop.stop()

    def _open_control(self) -> ControlPipe | None:
        try:
            return ControlPipe(self._folder.path / files.CONTROL, self.loop, self._requested)
        except OSError as error:
            text = f"This job takes no suspend or resume requests: {error.strerror or error}"
            self.event("Warning", "NoControlPipe", self._about, text)
            return None

    def _requested(self, request: Request) -> None:
        if request == "suspend":
            self._run.suspend()
        elif request == "resume":
            self._run.resume()
        else:
            self._run.stop("stopped on request")

    def _interrupted(self, signum: int) -> None:
        if self.stopped_by is None and not self._run.ending:
            self.stopped_by = signum
        name = signal.Signals(signum).name
        self._run.stop(f"stopped by {name}" + (" (Ctrl-C)" if signum == signal.SIGINT else ""))
