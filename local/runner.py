"""`run`: a TrainJob on this machine, from Python; the command line calls the same function.

    from trainyard.local import run
    result = run("job.yaml")                      # in this process; Ctrl-C stops the job
    result = run("job.yaml", detach=True)         # in a process of its own that survives this one

Everything that can be found wrong before a container starts is raised, and nothing is left behind. After that the job's
folder stays, whatever happens, and the result says how it ended.
"""

import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.contract import names
from trainyard.contract.errors import ConfigError, from_os_error
from trainyard.controller.api.load import load_runtime, load_train_job
from trainyard.controller.api.runtime import TrainingRuntime
from trainyard.controller.api.train_job import TrainJob
from trainyard.controller.discovery import default_plugins
from trainyard.controller.features import Features
from trainyard.controller.plan import Plan, plan
from trainyard.controller.runtimes import find_runtime
from trainyard.local.engine.engine import Engine
from trainyard.local.engine.job_set_spec import read_job_set
from trainyard.local.engine.observer import Observer
from trainyard.local.engine.signals import caught
from trainyard.local.engine.timing import Timing
from trainyard.local.machine import LocalMachine, RunRequest, open_machine
from trainyard.local.pods.storage_uri import localize_document, localize_train_job
from trainyard.local.store import job_folder as files
from trainyard.local.store.expiry import sweep
from trainyard.local.store.job_folder import JobFolder
from trainyard.local.store.state import StateDir
from trainyard.local.supervisor import start_supervisor

SIGNAL_EXIT_BASE = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """How a run ended, or, detached, that it began."""

    name: str
    namespace: str
    train_job: Mapping[str, Any]
    """The TrainJob with its status."""
    exit_code: int
    """0: Complete, or started detached; 1: Failed; 128 + n: stopped by a signal, such as 130 for Ctrl-C."""
    folder: Path
    """The job's folder in the state directory."""
    warnings: tuple[str, ...] = ()
    """What a person should know of the plan and of this machine."""

    @property
    def status(self) -> Mapping[str, Any]:
        """Give the TrainJob's status."""
        status: Mapping[str, Any] = self.train_job.get("status") or {}
        return status

    @property
    def succeeded(self) -> bool:
        """Say whether the job is complete."""
        return self.status.get("phase") == names.COMPLETE


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    """A TrainJob with all that it needs, read and typed."""

    train_job: TrainJob
    runtime: TrainingRuntime
    secrets: tuple[Mapping[str, Any], ...]
    config_maps: tuple[Mapping[str, Any], ...]


def run(
    train_job: TrainJob | Mapping[str, Any] | str | Path,
    *,
    runtime: TrainingRuntime | Mapping[str, Any] | None = None,
    secrets: Iterable[Mapping[str, Any]] = (),
    config_maps: Iterable[Mapping[str, Any]] = (),
    state_dir: str | Path | None = None,
    devices: str = "auto",
    images: Sequence[str] = (),
    isolation: str | None = None,
    allow_host_paths: bool = False,
    detach: bool = False,
    replace: bool = False,
    observer: Observer | None = None,
    on_warning: Callable[[str], None] | None = None,
    on_checked: Callable[[], object] | None = None,
    timing: Timing | None = None,
) -> RunResult:
    """Run a TrainJob to its end, or start it in the background.

    `train_job` is a typed TrainJob, a manifest, or a file (or folder) that holds exactly one, with its runtime, Secrets
    and ConfigMaps if need be. `runtime` is what its runtimeRef names; without it, the file's, then the shipped ones are
    looked through. Secrets and ConfigMaps are manifests. `on_warning` hears of warnings before anything starts.
    `on_checked` is called when all is found right and nothing has started; what it raises calls the run off.

    Raises TrainyardError (mostly ConfigError) for what is wrong before a container starts; no folder stays then.
    """
    job = _read(train_job, runtime, secrets, config_maps)
    planned = plan(job.train_job, job.runtime, plugins=default_plugins(), features=Features(train_job_status=True))
    job_set = read_job_set(planned.job_set)
    request = RunRequest(devices=devices, images=tuple(images), isolation=isolation, allow_host_paths=allow_host_paths)
    jobs = StateDir(state_dir)
    sweep(jobs.path)
    with caught((signal.SIGTERM, signal.SIGHUP), _leave):
        folder = JobFolder.create(jobs.folder(planned.namespace, planned.name), replace=replace)
        machine: LocalMachine | None = None
        try:
            _write(folder, job, planned)
            machine = open_machine(
                planned.job_set,
                job_set,
                folder=folder.path,
                request=request,
                secrets=(*job.secrets, *_of_kind(planned, "Secret")),
                config_maps=(*job.config_maps, *_of_kind(planned, "ConfigMap")),
            )
            machine.check()
            warnings = (*planned.warnings, *machine.messages)
            for warning in warnings:
                if on_warning is not None:
                    on_warning(warning)
            if on_checked is not None:
                on_checked()
            if detach:
                machine.close()
                stored = {**request.to_dict(), "configMaps": list(job.config_maps), "warnings": list(warnings)}
                folder.write_json(files.REQUEST, stored)
                started = start_supervisor(folder)
                return _result(planned, folder, started, exit_code=0, warnings=warnings)
        except BaseException as error:
            if machine is not None:
                machine.close()
            folder.discard()
            if isinstance(error, OSError):
                raise from_os_error(error, f"prepare job {planned.name!r} in {str(folder.path)!r}") from error
            raise
    folder.keep()
    engine = Engine(
        folder=folder,
        train_job=job.train_job.raw,
        job_set=job_set,
        machine=machine,
        observer=observer,
        warnings=warnings,
        timing=timing,
    )
    machine.serve_progress(engine.report_progress)
    try:
        engine.run(signals=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    except OSError as error:
        raise from_os_error(error, f"run job {planned.name!r} in {str(folder.path)!r}") from error
    finally:
        folder.close()
    final = engine.snapshot().train_job
    return _result(planned, folder, final, exit_code=_exit_code(engine), warnings=warnings)


def _leave(signum: int) -> None:
    """End this process, undoing what was prepared, as Ctrl-C does by itself."""
    raise SystemExit(SIGNAL_EXIT_BASE + signum)


def _exit_code(engine: Engine) -> int:
    if engine.stopped_by is not None:
        return SIGNAL_EXIT_BASE + engine.stopped_by
    return 0 if engine.succeeded else 1


def _result(
    planned: Plan, folder: JobFolder, train_job: Mapping[str, Any], *, exit_code: int, warnings: tuple[str, ...]
) -> RunResult:
    return RunResult(
        name=planned.name,
        namespace=planned.namespace,
        train_job=train_job,
        exit_code=exit_code,
        folder=folder.path,
        warnings=warnings,
    )


def _of_kind(planned: Plan, kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in planned.objects if manifest["kind"] == kind]


def _write(folder: JobFolder, job: _Job, planned: Plan) -> None:
    folder.write_yaml(files.TRAIN_JOB, [job.train_job.raw])
    folder.write_yaml(files.RUNTIME, [job.runtime.raw])
    folder.write_yaml(files.PLAN, planned.objects)
    folder.write_json(files.SECRETS, list(job.secrets))


def _read(
    train_job: TrainJob | Mapping[str, Any] | str | Path,
    runtime: TrainingRuntime | Mapping[str, Any] | None,
    secrets: Iterable[Mapping[str, Any]],
    config_maps: Iterable[Mapping[str, Any]],
) -> _Job:
    stream: tuple[TrainingRuntime, ...] = ()
    found_secrets, found_config_maps = list(secrets), list(config_maps)
    if isinstance(train_job, str | Path):
        from trainyard.controller.api.documents import read_documents

        documents = read_documents([os.fspath(train_job)])
        if len(documents.train_jobs) != 1:
            raise ConfigError(f"{os.fspath(train_job)}: expected one TrainJob, got {len(documents.train_jobs)}")
        localize_document(documents.train_jobs[0])
        train_job = load_train_job(documents.train_jobs[0])
        stream = tuple(load_runtime(document) for document in documents.runtimes)
        found_secrets.extend(document.data for document in documents.secrets)
        found_config_maps.extend(document.data for document in documents.config_maps)
    elif isinstance(train_job, Mapping):
        train_job = load_train_job(localize_train_job(train_job, Path.cwd()))
    if isinstance(runtime, Mapping):
        runtime = load_runtime(runtime)
    if runtime is None:
        runtime = find_runtime(train_job, from_stream=stream)
    return _Job(
        train_job=train_job,
        runtime=runtime,
        secrets=tuple(found_secrets),
        config_maps=tuple(found_config_maps),
    )
