"""What a pod and its containers need around them. The engine is one such world."""

from typing import Protocol

from trainyard.local.containers.launch import ContainerLaunch, ContainerProcess
from trainyard.local.engine.blame import ContainerFailure
from trainyard.local.engine.loop import Loop
from trainyard.local.engine.timing import Timing
from trainyard.local.pods.pod import PreparedPod
from trainyard.local.pods.pod_instance import PodInstance


class PodWorld(Protocol):
    """Time, processes, and ears."""

    @property
    def loop(self) -> Loop:
        """The event loop."""

    @property
    def timing(self) -> Timing:
        """Delays."""

    def prepare(self, pod: PodInstance) -> PreparedPod:
        """Write a pod's files and say what to launch; raises TrainyardError or OSError."""

    def start(self, launch: ContainerLaunch) -> ContainerProcess:
        """Start a container; raises TrainyardError or OSError."""

    def event(self, kind: str, reason: str, about: str, message: str) -> None:
        """Record an event."""

    def container_failed(self, failure: ContainerFailure) -> None:
        """Hear of a container that failed by itself."""

    def changed(self) -> None:
        """Hear that something about a pod changed."""
