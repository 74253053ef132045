"""Runs the TrainJobs of one command, one or several at once, and shows them. `run` reads the options.

One job runs in the main thread, where the executor handles signals itself. Several run in a thread each: all are
checked before the first starts, and signals stop all of them.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType
from typing import Any, Final

from trainyard.contract.errors import ConfigError, TrainyardError
from trainyard.controller.api.problem import InvalidError, Problem
from trainyard.controller.discovery import default_plugins
from trainyard.controller.lint import lint
from trainyard.entrypoints.cli.errors import outlived
from trainyard.entrypoints.cli.load import Request, problems_of, read_input
from trainyard.entrypoints.cli.summary import started, summarize
from trainyard.entrypoints.cli.terminal import Terminal
from trainyard.entrypoints.cli.viewer import Viewer, choose_view
from trainyard.entrypoints.cli.watch import Watcher
from trainyard.local import RunResult
from trainyard.local import run as run_job
from trainyard.local.engine.observer import Snapshot
from trainyard.local.pods.secret_data import parse_secret_option
from trainyard.local.pods.storage_uri import localize_document
from trainyard.local.store.state import JobState, StateDir

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PAUSE_SECONDS: Final = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How all jobs of the command are run; the options of the same names."""

    devices: str
    images: tuple[str, ...]
    isolation: str | None
    allow_host_paths: bool
    replace: bool
    state_dir: str | None
    on_warning: Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One TrainJob, ready to run."""

    request: Request
    secrets: tuple[Mapping[str, Any], ...]
    config_maps: tuple[Mapping[str, Any], ...]

    def folder(self, state_dir: str | None) -> JobState:
        """Give its place in the state directory."""
        train_job = self.request.train_job
        return JobState(StateDir(state_dir).folder(train_job.namespace, train_job.name))


def prepare(
    files: Sequence[str],
    *,
    sets: Sequence[str],
    runtime_paths: Sequence[str],
    namespace: str | None,
    secrets: Sequence[str],
) -> tuple[Job, ...]:
    """Read and check everything; raises InvalidError with all problems of all TrainJobs."""
    given = read_input(
        files, sets=sets, runtime_paths=runtime_paths, namespace=namespace, before_load=localize_document
    )
    problems: list[Problem] = list(given.problems)
    for request in given.requests:
        if request.runtime is not None:
            problems.extend(lint(request.train_job, request.runtime, plugins=default_plugins()).errors)
    by_option = []
    for option in secrets:
        try:
            by_option.append(parse_secret_option(option))
        except TrainyardError as error:
            problems.extend(problems_of(error))
    if problems:
        raise InvalidError(dict.fromkeys(problems))
    return tuple(
        Job(request=request, secrets=(*given.secrets, *by_option), config_maps=given.config_maps)
        for request in given.requests
    )


def run_all(jobs: Sequence[Job], settings: Settings, terminal: Terminal, *, quiet: bool) -> list[RunResult]:
    """Run jobs to their ends, all at once, showing them; raises what is wrong before the first one starts."""
    states = [job.folder(settings.state_dir) for job in jobs]
    view = None if quiet else choose_view(terminal, several_jobs=len(jobs) > 1)
    viewer = None if view is None else Viewer(states, view)
    begin = (lambda: None) if viewer is None else viewer.begin
    try:
        if len(jobs) == 1:
            results = [_run(jobs[0], settings, observer=_AtFirst(begin))]
        else:
            results = _run_together(jobs, states, settings, begin)
    finally:
        if viewer is not None:
            viewer.end()
    if quiet:
        terminal = Terminal.of(sys.stderr, os.environ)
    with outlived(terminal.stream):
        for result in results:
            if result.exit_code or not quiet:
                terminal.print(_end(JobState(result.folder), result, terminal))
    return results


def _end(state: JobState, result: RunResult, terminal: Terminal) -> str:
    try:
        return summarize(state, Watcher(state).glance(), terminal)
    except ConfigError:
        return f"{state.name}  {result.status.get('phase')}: it has been deleted meanwhile"


def start_all(jobs: Sequence[Job], settings: Settings, terminal: Terminal, *, quiet: bool) -> list[RunResult]:
    """Start jobs in the background; when one cannot start, those before it are deleted again."""
    results: list[RunResult] = []
    states = [job.folder(settings.state_dir) for job in jobs]
    for job in jobs:
        try:
            results.append(_run(job, settings, detach=True))
        except BaseException:
            for state in states[: len(results)]:
                state.delete()
            raise
    if not quiet:
        with outlived(terminal.stream):
            for state in states:
                terminal.print(started(state, terminal))
    return results


def _run(job: Job, settings: Settings, **more: Any) -> RunResult:
    return run_job(
        job.request.train_job,
        runtime=job.request.runtime,
        secrets=job.secrets,
        config_maps=job.config_maps,
        state_dir=settings.state_dir,
        devices=settings.devices,
        images=settings.images,
        isolation=settings.isolation,
        allow_host_paths=settings.allow_host_paths,
        replace=settings.replace,
        on_warning=lambda text: settings.on_warning(f"{job.request.train_job.name}: {text}"),
        **more,
    )


class _AtFirst:
    """An observer that says once that the job has begun."""

    def __init__(self, begun: Callable[[], None]) -> None:
        self._begun: Callable[[], None] | None = begun

    def event(self, event: Mapping[str, str]) -> None:
        """Hear of an event."""
        self._say_once()

    def snapshot(self, snapshot: Snapshot) -> None:
        """See the job."""
        self._say_once()

    def _say_once(self) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            begun()


def _run_together(
    jobs: Sequence[Job], states: Sequence[JobState], settings: Settings, begin: Callable[[], None]
) -> list[RunResult]:
    checked = threading.Barrier(len(jobs), action=begin)
    results: list[RunResult | None] = [None] * len(jobs)
    errors: list[BaseException] = []

    def run_one(index: int) -> None:
        try:
            results[index] = _run(jobs[index], settings, on_checked=checked.wait)
        except threading.BrokenBarrierError:
            return  # Another one is wrong, and says so.
        except BaseException as error:
            errors.append(error)
            checked.abort()

    threads = [threading.Thread(target=partial(run_one, index), name=state.name) for index, state in enumerate(states)]
    with _stopping(states, checked) as stopped_by:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_PAUSE_SECONDS)
    if errors:
        raise _joined(errors)
    done = [result for result in results if result is not None]
    if stopped_by and not done:
        raise SystemExit(128 + stopped_by[0])
    return [replace(result, exit_code=128 + stopped_by[0]) for result in done] if stopped_by else done


def _joined(errors: Sequence[BaseException]) -> BaseException:
    """Make one error of all; the first that is not the user's fault goes alone."""
    ours = [error for error in errors if isinstance(error, TrainyardError)]
    if len(errors) == 1 or len(ours) < len(errors):
        return next((error for error in errors if not isinstance(error, TrainyardError)), errors[0])
    return InvalidError(problem for error in ours for problem in problems_of(error))


@contextmanager
def _stopping(states: Sequence[JobState], checked: threading.Barrier) -> Iterator[list[int]]:
    """Let signals stop all jobs, a second one without waiting; gives the signals that came."""
    came: list[int] = []

    def stop(signum: int, _: FrameType | None) -> None:
        came.append(signum)
        if len(came) == 1:
            checked.abort()  # Those that have not started yet do not.
        for state in states:
            state.stop()

    before = {signum: signal.signal(signum, stop) for signum in _SIGNALS}
    try:
        yield came
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
