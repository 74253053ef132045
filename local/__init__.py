"""Executes a Plan on this machine: order, processes, ports, volumes, logs, state directory.

from trainyard.local import run
result = run("job.yaml")
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainyard.local.runner import RunResult, run

__all__ = ["RunResult", "run"]


def __getattr__(name: str) -> Any:
    """Load `run` when it is asked for: keepers and the command line import this package and must start quickly."""
    if name in __all__:
        from trainyard.local import runner

        return getattr(runner, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
