"""How a container's paths are made true on this machine, found out by really trying it once.

Linux permits a private mount namespace to root, and to others through a user namespace, unless a container engine, a
sandbox or AppArmor (Ubuntu 24.04) forbids it; no documentation tells, so a child process tries (`namespace_probe`).
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from trainyard.contract.errors import ConfigError
from trainyard.local.containers import lean_start

Paths = Literal["namespace", "mapped"]

ISOLATION: Final = "TRAINYARD_ISOLATION"
"""Environment variable of the command: `auto` (default), `namespace` or `mapped`."""

_PROBE_TIMEOUT_SECONDS: Final = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Isolation:
    """What this machine permits, or what was asked for."""

    paths: Paths
    """`namespace`: the very paths exist, in a private mount namespace. `mapped`: paths in argv, environment and code
    are replaced by the real folders."""
    user_namespace: bool = False
    """Whether it takes a user namespace (for anyone but root)."""
    pid_namespace: bool = False
    """Whether a container has process ids of its own; then the kernel ends all of it with its first process."""
    reason: str = ""
    """Why it is `mapped`; empty for `namespace`."""

    @property
    def private_hostname(self) -> bool:
        """Say whether a container can have a host name of its own."""
        return self.paths == "namespace"

    def to_instructions(self) -> dict[str, bool] | None:
        """Tell the keeper which namespaces to enter; None for none."""
        if self.paths == "mapped":
            return None
        return {"user": self.user_namespace, "pid": self.pid_namespace}

    def __str__(self) -> str:
        if self.paths == "mapped":
            return f"mapped ({self.reason})" if self.reason else "mapped"
        own = [word for word, is_own in (("user", self.user_namespace), ("pid", self.pid_namespace)) if is_own]
        return f"namespace ({', '.join(['mount', *own])})"


def mapped(reason: str = "") -> Isolation:
    """Give the isolation that works everywhere."""
    return Isolation(paths="mapped", reason=reason)


def detect_isolation(wanted: str | None = None, environ: Mapping[str, str] = os.environ) -> Isolation:
    """Find out what this machine permits, once per process; `wanted` (else TRAINYARD_ISOLATION) forces an answer.

    Raises ConfigError for an unknown word, and for `namespace` where the machine does not permit it.
    """
    word = wanted or environ.get(ISOLATION) or "auto"
    if word not in ("auto", "namespace", "mapped"):
        raise ConfigError(f"{ISOLATION}: expected auto, namespace or mapped, got {word!r}")
    if word == "mapped":
        return mapped("asked for")
    found = _tried()
    if word == "namespace" and found.paths != "namespace":
        raise ConfigError(f"{ISOLATION}: 'namespace' is not possible on this machine: {found.reason}; use 'mapped'")
    return found


@functools.cache
def _tried() -> Isolation:
    if not sys.platform.startswith("linux"):
        return mapped("mount namespaces need Linux")
    try:
        probe = subprocess.run(
            lean_start.command_line("namespace_probe"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_TIMEOUT_SECONDS,
            check=True,
        )
        answer = json.loads(probe.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return mapped(f"the trial of namespaces failed: {error}")
    found = answer["found"]
    if found is None:
        return mapped(answer["reasons"][0])
    return Isolation(paths="namespace", user_namespace=found["user"], pid_namespace=found["pid"])
