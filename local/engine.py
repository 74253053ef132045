"""Runs one job to its end: the event loop around the JobSet, and the TrainJob's own rules on top of it.

The engine owns the clock, the status files, the deadline, suspend and resume, and what happens on Ctrl-C. JobSet, Job
and pod semantics are in `job_set`, `job` and `pod_lifecycle`; how a pod becomes processes is the `Machine`'s business.

    engine = Engine(folder=..., train_job=..., job_set=..., machine=..., observer=...)
    engine.run()          # returns when no process of the job is left
"""

import signal
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, Final, Protocol

from trainyard.contract import labels, names
from trainyard.local import blame, clock
from trainyard.local import job_folder as files
from trainyard.local.blame import ContainerFailure
from trainyard.local.control import ControlPipe, Request
from trainyard.local.job import JobRun
from trainyard.local.job_folder import JobFolder
from trainyard.local.job_set import JobSetEnd, JobSetRun
from trainyard.local.job_set_spec import JobSetSpec
from trainyard.local.job_spec import DEADLINE_EXCEEDED
from trainyard.local.launch import ContainerLaunch, ContainerProcess
from trainyard.local.loop import Loop, Timer
from trainyard.local.observer import Observer, Snapshot
from trainyard.local.pod import PreparedPod
from trainyard.local.pod_instance import PodInstance
from trainyard.local.pod_lifecycle import PodRun
from trainyard.local.pod_template import pod_instance
from trainyard.local.status import REASON_INTERNAL, REASON_STOPPED, TrainJobStatus
from trainyard.local.survivors import kill_survivors
from trainyard.local.timing import Timing

_INITIALIZERS: Final = (names.DATASET_INITIALIZER, names.MODEL_INITIALIZER)


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
        timing: Timing | None = None,
    ) -> None:
        self.loop = Loop()
        self.timing = timing or Timing()
        self.status = TrainJobStatus(created_at=clock.now())
        self.stopped_by: int | None = None
        """The signal that ended the run; None otherwise."""
        self._folder = folder
        self._train_job = train_job
        self._spec = job_set
        self._machine = machine
        self._observer = observer
        self._job_set = JobSetRun(job_set, self)
        self._job_set_uid = str(uuid.uuid4())
        self._pods: dict[str, PodRun] = {}
        self._attempts: dict[str, int] = {}
        self._failures: list[ContainerFailure] = []
        self._changed = True
        self._stopping = False
        self._deadline: Timer | None = None
        self._unwritten = True
        self._written: dict[str, Any] = {}
        self._last_write = float("-inf")
        self._write_timer: Timer | None = None
        self._ending: Callable[[], None] | None = None

    # -- from outside ---------------------------------------------------------------------------------------------

    @property
    def succeeded(self) -> bool:
        """Say whether the job is Complete."""
        condition = self.status.conditions.get(names.COMPLETE)
        return condition is not None and condition.is_true

    def run(self, *, signals: Sequence[signal.Signals] = (), on_started: Callable[[], None] | None = None) -> None:
        """Run the job until nothing of it is left; `signals` stop it.

        `on_started` is called when the first status is written.
        """
        restore = self._catch(signals)
        control = None
        try:
            self._begin()
            control = self._open_control()
            self._write(final=False, strict=True)
            if on_started is not None:
                on_started()
            self.loop.run(self._after_turn)
        except BaseException as error:
            self._crashed(error)
            raise
        finally:
            self._machine.close()
            restore()
            if control is not None:
                control.close()
            self._folder.remove(files.SECRETS)
            self.loop.close()

    def report_progress(self, ancestor: str, message: Mapping[str, Any]) -> None:
        """Take a progress message of a step; may be called from any thread."""

        def take() -> None:
            self.status.progress[ancestor] = message
            self._changed = True

        self.loop.call_soon_threadsafe(take)

    def interrupt(self, signum: int) -> None:
        """Stop the job because of a signal; a second one ends everything at once. Safe in a signal handler."""
        self.loop.call_soon_threadsafe(lambda: self._interrupted(signum))

    # -- what pods and Jobs need (PodWorld, JobWorld) -----------------------------------------------------------------

    def prepare(self, pod: PodInstance) -> PreparedPod:
        """Write a pod's files and say what to launch."""
        return self._machine.prepare(pod)

    def start(self, launch: ContainerLaunch) -> ContainerProcess:
        """Start a container."""
        return self._machine.start(launch)

    def create_pod(self, job: JobRun, slot: int) -> PodRun:
        """Make the pod of a Job's slot, not started yet."""
        replicated = next(one for one in self._spec.replicated_jobs if one.name == job.replicated_job)
        instance = pod_instance(
            self._spec,
            replicated,
            job.index,
            slot,
            restarts=self._job_set.restarts,
            job_set_uid=self._job_set_uid,
            uid=str(uuid.uuid4()),
        )
        attempt = self._attempts.get(instance.name, -1) + 1
        self._attempts[instance.name] = attempt
        if attempt:
            last = [failure for failure in self._failures if failure.pod == instance.name][-1:]
            if last:
                self.status.message = f"retrying after: {blame.sentence(last[0])}"
            instance = pod_instance(
                self._spec,
                replicated,
                job.index,
                slot,
                restarts=self._job_set.restarts,
                attempt=attempt,
                job_set_uid=self._job_set_uid,
                uid=instance.uid,
            )
        pod = PodRun(instance, self, slot=slot)
        self._pods[pod.name] = pod
        return pod

    def event(self, kind: str, reason: str, about: str, message: str) -> None:
        """Record an event, and tell the observer."""
        event = {
            "time": clock.fine_stamp(clock.now()),
            "type": kind,
            "reason": reason,
            "object": about,
            "message": message,
        }
        try:
            self._folder.append_event(event)
        except OSError:
            pass  # A full disk must not end a job that runs; the observer still hears of it.
        self._tell(lambda observer: observer.event(event))

    def container_failed(self, failure: ContainerFailure) -> None:
        """Remember a container that failed by itself."""
        self._failures.append(failure)

    def changed(self) -> None:
        """Look at everything again before the loop waits."""
        self._changed = True

    # -- the TrainJob's rules -----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        about, now = f"TrainJob/{self._spec.name}", clock.now()
        self._folder.claim()
        self.event("Normal", "Created", about, f"Created JobSet {self._spec.name}")
        if self._job_set.suspended:
            self.status.set_condition(names.SUSPENDED, True, names.REASON_SUSPENDED, "TrainJob is suspended", now)
        else:
            self._start_clock()

    def _start_clock(self) -> None:
        self.status.started_at = self.status.started_at or clock.now()
        seconds = (self._train_job.get("spec") or {}).get("activeDeadlineSeconds")
        if seconds:
            self._deadline = self.loop.call_later(float(seconds), self._deadline_passed)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _after_turn(self) -> None:
        for _ in range(10_000):  # A bound, so that a fault in the rules shows as an error and not as a hot CPU.
            if not self._changed:
                break
            self._changed = False
            self._unwritten = True
            self._job_set.reconcile()
            self._follow_job_set()
        else:
            raise RuntimeError(f"JobSet {self._spec.name} does not settle")
        if self.status.finished and self._job_set.idle:
            self._write(final=True)
            self.loop.stop()
        else:
            self._write(final=False)

    def _follow_job_set(self) -> None:
        end = self._job_set.end
        if self._ending is None and end is not None:
            kind = names.COMPLETE if end.succeeded else names.FAILED

            def finish() -> None:
                message = end.message if end.succeeded else self._cause(end)
                self._finish(kind, end.reason, end.message, message)

            self._stop_clock()
            self._ending = finish
        if self._ending is not None and not self.status.finished and self._job_set.idle:
            self._ending()

    def _cause(self, end: JobSetEnd) -> str:
        """Say in one line why the job failed."""
        job_end = end.job.end if end.job is not None else None
        cause = blame.find_cause(self._current_failures())
        if job_end is not None and (cause is None or job_end.reason == DEADLINE_EXCEEDED):
            text = f"{end.job.name if end.job is not None else ''}: {job_end.reason}: {job_end.message}"
        else:
            text = end.message if cause is None else blame.sentence(cause)
        restarts = self._job_set.restarts
        return f"{text} (after {restarts} restart{'s' if restarts > 1 else ''})" if restarts else text

    def _current_failures(self) -> list[ContainerFailure]:
        """List the failures that stand: of each pod's last attempt in the last restart, not cured by a restart."""
        current = []
        for failure in self._failures:
            pod = self._pods[failure.pod]
            if pod.pod.labels[labels.RESTART_ATTEMPT] != str(self._job_set.restarts):
                continue
            if any(one.name == failure.container and one.finished_at == failure.time for one in pod.containers):
                current.append(failure)
        return current

    def _finish(self, kind: str, reason: str, condition_message: str, message: str) -> None:
        now = clock.now()
        self.status.set_condition(kind, True, reason, condition_message, now)
        self.status.completed_at = now
        self.status.message = message
        self.event("Normal" if kind == names.COMPLETE else "Warning", kind, f"TrainJob/{self._spec.name}", message)

    def _end_early(self, reason: str, condition_message: str, message: str) -> None:
        """Stop all pods, then mark the job Failed; the first reason to end stays."""
        if self._ending is not None:
            return
        self._stop_clock()
        self._ending = lambda: self._finish(names.FAILED, reason, condition_message, message)
        if not self._job_set.suspended:
            self._job_set.stop()
        self._changed = True

    def _deadline_passed(self) -> None:
        seconds = self._train_job["spec"]["activeDeadlineSeconds"]
        running = ", ".join(pod.name for pod in self._pods.values() if not pod.finished)
        message = f"stopped after activeDeadlineSeconds: {seconds}"
        message += f"; still running: {running}" if running else ""
        # As our controller does it: the JobSet is suspended and kept, so volumes and output survive.
        self._job_set.suspended = True
        self._end_early(names.REASON_DEADLINE_EXCEEDED, "TrainJob exceeded its active deadline", message)

    def _suspend(self) -> None:
        if self._job_set.suspended or self._ending is not None:
            return
        self._stop_clock()
        self._job_set.suspended = True
        self.status.set_condition(names.SUSPENDED, True, names.REASON_SUSPENDED, "TrainJob is suspended", clock.now())
        self._changed = True

    def _resume(self) -> None:
        if not self._job_set.suspended or self._ending is not None:
            return
        self._job_set.suspended = False
        self.status.set_condition(names.SUSPENDED, False, names.REASON_RESUMED, "TrainJob is resumed", clock.now())
        self._start_clock()
        self._changed = True

    def _crashed(self, error: BaseException) -> None:
        """Leave nothing running and say so, whatever went wrong here."""
        kill_survivors(self._folder.path)
        message = f"the local executor failed: {type(error).__name__}: {error}"
        self._finish(names.FAILED, REASON_INTERNAL, message, message)
        self._write(final=True)

    # -- requests and signals -----------------------------------------------------------------------------------------

    def _open_control(self) -> ControlPipe | None:
        try:
            return ControlPipe(self._folder.path / files.CONTROL, self.loop, self._requested)
        except OSError as error:
            self.event(
                "Warning",
                "NoControlPipe",
                f"TrainJob/{self._spec.name}",
                f"This job takes no suspend or resume requests: {error.strerror or error}",
            )
            return None

    def _requested(self, request: Request) -> None:
        if request == "suspend":
            self._suspend()
        elif request == "resume":
            self._resume()
        else:
            self._stop("stopped on request")

    def _interrupted(self, signum: int) -> None:
        if self.stopped_by is None and self._ending is None:
            self.stopped_by = signum
        name = signal.Signals(signum).name
        self._stop(f"stopped by {name}" + (" (Ctrl-C)" if signum == signal.SIGINT else ""))

    def _stop(self, message: str) -> None:
        if self._stopping:
            self._job_set.kill()
            self._changed = True
            return
        self._stopping = True
        self.event("Warning", "Stopping", f"TrainJob/{self._spec.name}", message)
        self._end_early(REASON_STOPPED, f"TrainJob was {message}", message)

    def _catch(self, signals: Sequence[signal.Signals]) -> Callable[[], None]:
        """Let signals stop the job; gives what undoes it. Only a main thread can."""
        before: dict[signal.Signals, Any] = {}

        def handler(signum: int, _: FrameType | None) -> None:
            self.interrupt(signum)

        if threading.current_thread() is threading.main_thread():
            before = {signum: signal.signal(signum, handler) for signum in signals}

        def restore() -> None:
            for signum, old in before.items():
                signal.signal(signum, old)

        return restore

    # -- what is written ----------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Build what status.json and pods.json hold."""
        statuses = self._job_set.statuses()
        jobs = self._job_set.jobs.values()
        initializers = {job.name for job in self._spec.replicated_jobs if job.ancestor in _INITIALIZERS}
        phase = self.status.phase(
            training=any(job.replicated_job not in initializers for job in jobs),
            initializing=any(job.replicated_job in initializers for job in jobs),
        )
        status = self.status.to_dict(jobs_status=statuses, phase=phase)
        return Snapshot(train_job={**self._train_job, "status": status}, pods=self._pod_statuses())

    def _pod_statuses(self) -> Sequence[Mapping[str, Any]]:
        order = {job.name: index for index, job in enumerate(self._spec.replicated_jobs)}
        pods = sorted(
            self._pods.values(),
            key=lambda pod: (order[pod.pod.replicated_job], pod.pod.job_index, pod.slot),
        )
        return [pod.to_status() for pod in pods]

    def _write(self, *, final: bool, strict: bool = False) -> None:
        """Write the status files if something changed; with pauses between, but the last one always."""
        if not self._unwritten and not final:
            return
        wait = self._last_write + self.timing.status_interval_seconds - time.monotonic()
        if wait > 0 and not final:
            if self._write_timer is None:
                self._write_timer = self.loop.call_later(wait, self._write_timer_passed)
            return
        self._unwritten = False
        snapshot = self.snapshot()
        fresh = {files.PODS: snapshot.pods, files.STATUS: snapshot.train_job}
        if fresh == self._written:
            return
        try:
            for name, value in fresh.items():
                if self._written.get(name) != value:
                    self._folder.write_json(name, value)
        except OSError:
            if strict:
                raise
        else:
            self._written = fresh
        self._last_write = time.monotonic()
        self._tell(lambda observer: observer.snapshot(snapshot))

    def _tell(self, say: Callable[[Observer], None]) -> None:
        """Tell the observer; one that fails (its terminal is gone) is not told again, and the job goes on."""
        observer, self._observer = self._observer, None
        if observer is None:
            return
        try:
            say(observer)
        except Exception as error:
            text = f"what watched this job failed, the job goes on: {type(error).__name__}: {error}"
            self.event("Warning", "ObserverFailed", f"TrainJob/{self._spec.name}", text)
        else:
            self._observer = observer

    def _write_timer_passed(self) -> None:
        self._write_timer = None
