"""What is replaced in a pod's commands and environment because all pods share one machine: a visible table.

A plan speaks of names, ports and paths of a cluster: `job-node-0-0.job`, 29500, `/workspace`. On one machine a name
becomes a loopback address, a rendezvous port becomes a free one, and, without a mount namespace, a mounted path
becomes the folder behind it. `Substitutions` is that table; `network` and `path_mapping` apply it; `describe` prints
it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

SUBSTITUTIONS_FILE: Final = "substitutions.json"
"""In a pod's folder: the isolation, and each container's table; `describe` shows it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PortSubstitution:
    """One pod's port."""

    hostname: str
    """The pod that listens."""
    declared: int
    """The port that the plan writes."""
    actual: int
    """The port that is used on this machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PathSubstitution:
    """One mounted path."""

    target: str
    """The path inside the container."""
    source: str
    """The folder or file on this machine."""
    read_only: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Substitutions:
    """Everything that differs between the plan's words and this machine."""

    addresses: Mapping[str, str] = field(default_factory=dict)
    """Name of a pod's host (short, and with its subdomain) to its loopback address."""
    names_in_text: bool = False
    """Whether names are replaced in commands and environment; False where a hosts file makes them resolve."""
    ports: tuple[PortSubstitution, ...] = ()
    """Rendezvous ports, replaced in commands and environment under every isolation."""
    paths: tuple[PathSubstitution, ...] = ()
    """Mounts of one container (or of all containers of a pod)."""
    paths_in_text: bool = False
    """Whether paths are replaced in commands and environment; False where mounts make them real."""

    def port(self, hostname: str, declared: int) -> int:
        """Give the port that a pod uses for a declared one; the declared one when it is not replaced."""
        for entry in self.ports:
            if entry.hostname == hostname and entry.declared == declared:
                return entry.actual
        return declared

    def to_dict(self) -> dict[str, Any]:
        """Build what `describe` prints."""
        return {
            "addresses": dict(self.addresses),
            "namesInText": self.names_in_text,
            "ports": [
                {"hostname": entry.hostname, "declared": entry.declared, "actual": entry.actual} for entry in self.ports
            ],
            "paths": [
                {"target": entry.target, "source": entry.source, "readOnly": entry.read_only} for entry in self.paths
            ],
            "pathsInText": self.paths_in_text,
        }
