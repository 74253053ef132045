"""The state directory as the commands ask for it: which one, and which job in it."""

import shlex

from trainyard.local.store.state import DEFAULT_NAMESPACE, JobState, StateDir, default_state_dir


def open_state(state_dir: str | None) -> StateDir:
    """Open the state directory that `--state-dir` names, or the user's own."""
    return StateDir(state_dir)


def find_job(name: str, namespace: str | None, state_dir: str | None, *, any_remains: bool = False) -> JobState:
    """Find a job, or `any_remains` of one; raises ConfigError with names near it when there is none."""
    return open_state(state_dir).job(namespace or DEFAULT_NAMESPACE, name, any_remains=any_remains)


def command_for(job: JobState, verb: str, *arguments: str) -> str:
    """Write a command line that reaches this job."""
    words = ["trainyard", verb, job.name, *arguments]
    if job.namespace != DEFAULT_NAMESPACE:
        words += ["-n", job.namespace]
    state_dir = job.folder.parent.parent
    if state_dir != default_state_dir():
        words += ["--state-dir", str(state_dir)]
    return shlex.join(words)
