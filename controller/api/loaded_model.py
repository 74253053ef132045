"""What a loaded object knows besides its fields: the plain data it was made of, and where that stood."""

from typing import Any, Literal

from pydantic import PrivateAttr

from trainyard.controller.api.field_path import Path, format_path, parse_path
from trainyard.controller.api.metadata import ObjectMeta
from trainyard.controller.api.problem import Problem
from trainyard.controller.api.report import Source
from trainyard.controller.api.strict_model import StrictModel


class LoadedModel(StrictModel):
    """A whole object: TrainJob, TrainingRuntime or ClusterTrainingRuntime."""

    api_version: Literal["trainer.kubeflow.org/v1alpha1"]
    metadata: ObjectMeta
    _raw: dict[str, Any] = PrivateAttr(default_factory=dict)
    _source: Source | None = PrivateAttr(default=None)

    @property
    def raw(self) -> dict[str, Any]:
        """The object as plain data, without nulls. Parts of the model are the same dicts: do not change it."""
        return self._raw

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name

    @property
    def file(self) -> str | None:
        """The file it was read from, as the user named it."""
        return None if self._source is None else self._source.locate(())[0]

    def problem(self, path: str | Path, message: str) -> Problem:
        """Make a problem of this object that knows file and line of the field."""
        pieces = (parse_path(path) if path else ()) if isinstance(path, str) else path
        file, line = (None, None) if self._source is None else self._source.locate(pieces)
        return Problem(path=format_path(pieces), message=message, file=file, line=line)

    def attach(self, raw: dict[str, Any], source: Source | None) -> None:
        """Remember plain data and source; `load` calls it once."""
        self._raw = raw
        self._source = source
