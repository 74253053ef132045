"""The plugins of the plan pipeline, one framework or concern each, in a visible order."""

from trainyard.controller.phases import Plugin
from trainyard.controller.plugins.job_set import JobSet
from trainyard.controller.plugins.plain import PlainML
from trainyard.controller.plugins.runtime_snapshot import RuntimeSnapshot
from trainyard.controller.plugins.torch import Torch
from trainyard.controller.plugins.torchtune import TorchTune
from trainyard.controller.plugins.train_job_status import TrainJobStatus

BUILT_IN: tuple[Plugin, ...] = (
    RuntimeSnapshot(),
    PlainML(),
    Torch(),
    # After Torch: it replaces the command of a trainer that Torch has wired.
    TorchTune(),
    TrainJobStatus(),
    # Last: a JobSet starts pods, which must find all that the others make.
    JobSet(),
)
