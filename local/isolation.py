"""How a container's paths are made true on this machine, found out by trying it once."""

from dataclasses import dataclass
from typing import Literal

Paths = Literal["namespace", "mapped"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Isolation:
    """What this machine permits."""

    paths: Paths
    """`namespace`: the very paths exist, in a private mount namespace. `mapped`: paths in argv, environment and code
    are replaced by the real folders."""
    pid_namespace: bool = False
    """Whether a container has process ids of its own (then the kernel ends all of it with its first process)."""
    user_namespace: bool = False
    """Whether a user namespace is needed (for anyone but root)."""
    reason: str = ""
    """Why it is `mapped`; empty for `namespace`."""


def detect_isolation() -> Isolation:
    """Find out what this machine permits."""
    return Isolation(paths="mapped", reason="namespaces are not tried yet")
