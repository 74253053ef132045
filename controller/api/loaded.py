"""A whole object of ours: its metadata, the plain data it was made of, and where that stood."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from trainyard.contract import names
from trainyard.controller.api.field_path import Path, format_path
from trainyard.controller.api.metadata import ObjectMeta
from trainyard.controller.api.model import NOT_YAML, Model
from trainyard.controller.api.problem import Problem
from trainyard.controller.api.report import Source
from trainyard.controller.api.shape import Text


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded(Model):
    """What TrainJob, TrainingRuntime and ClusterTrainingRuntime have in common."""

    api_version: Annotated[str, Text(choices=(names.API_VERSION,))]
    metadata: ObjectMeta
    raw: dict[str, Any] = field(metadata=NOT_YAML, default_factory=dict, repr=False, compare=False)
    """The object as plain data without nulls. Parts of the model are the same dicts: do not change it."""
    source: Source | None = field(metadata=NOT_YAML, default=None, repr=False, compare=False)
    """Where it was read from; None for an object that came from no file."""

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name

    @property
    def file(self) -> str | None:
        """The file it was read from, as the user named it."""
        return None if self.source is None else self.source.locate(())[0]

    def problem(self, path: str | Path, message: str) -> Problem:
        """Make a problem of this object that knows file and line of the field."""
        file, line = (None, None) if self.source is None else self.source.locate(path)
        text = path if isinstance(path, str) else format_path(path)
        return Problem(path=text, message=message, file=file, line=line)
