"""The phases of a plan, each an interface of one method. A plugin is an object with one or more of these methods.

    validate -> enforce_ml_policy -> enforce_pod_group -> enforce_pod_spec -> build

Within a phase plugins act in the order of the tuple that `plan` is given. Only plugins that name the policy of the
runtime take part in `enforce_ml_policy` and `enforce_pod_group`; those with an ML policy also validate only then. An
mlPolicy that no plugin names is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from trainyard.controller.api.problem import Problem
from trainyard.controller.api.train_job import TrainJob
from trainyard.controller.info import Info


@runtime_checkable
class Validates(Protocol):
    """Refuses TrainJobs before anything is made."""

    def validate(self, info: Info, old: TrainJob | None) -> Iterable[Problem]:
        """Find what is wrong; `old` is the TrainJob before an update. `info` has the runtime's values only."""
        ...


@runtime_checkable
class EnforcesMlPolicy(Protocol):
    """Handles one field of mlPolicy."""

    policy: str
    """The field, such as `torch`; empty for runtimes whose mlPolicy names no framework."""

    def enforce_ml_policy(self, info: Info) -> Info:
        """Set nodes, variables and commands; the first plugin of a policy calls `wiring.wire_trainer`."""
        ...


@runtime_checkable
class EnforcesPodGroup(Protocol):
    """Handles one field of podGroupPolicy."""

    pod_group_policy: str
    """The field: `coscheduling` or `volcano`."""

    def enforce_pod_group(self, info: Info) -> Info:
        """Mark pods that are to be scheduled together."""
        ...


@runtime_checkable
class EnforcesPodSpec(Protocol):
    """Changes pods for any other reason."""

    def enforce_pod_spec(self, info: Info) -> Info:
        """Change containers and volumes."""
        ...


@runtime_checkable
class Builds(Protocol):
    """Makes objects."""

    def build(self, info: Info) -> Iterable[dict[str, Any]]:
        """Write Kubernetes objects; they are applied in the order of plugins."""
        ...


Plugin = Validates | EnforcesMlPolicy | EnforcesPodGroup | EnforcesPodSpec | Builds
