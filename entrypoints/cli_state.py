"""The state directory as the commands ask for it: which one, and which job in it."""

from trainyard.local.state import DEFAULT_NAMESPACE, JobState, StateDir


def open_state(state_dir: str | None) -> StateDir:
    """Open the state directory that `--state-dir` names, or the user's own."""
    return StateDir(state_dir)


def find_job(name: str, namespace: str | None, state_dir: str | None) -> JobState:
    """Find a job; raises ConfigError with names near it when there is none."""
    return open_state(state_dir).job(namespace or DEFAULT_NAMESPACE, name)
