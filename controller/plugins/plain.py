"""PlainML: runtimes whose mlPolicy names no framework, or that have no mlPolicy at all."""

from __future__ import annotations

from trainyard.controller.info import Info
from trainyard.controller.wiring import wire_trainer


class PlainML:
    """Gives the trainer's job the TrainJob's values and nothing else."""

    policy = ""

    def enforce_ml_policy(self, info: Info) -> Info:
        """Set number of nodes, image, command, args, environment and resources."""
        return wire_trainer(info)
