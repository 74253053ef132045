"""Metadata of our objects and of the JobSets made from a template."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from trainyard.controller.api.model import Model
from trainyard.controller.api.names_shape import ANNOTATIONS, LABELS, NAMESPACE
from trainyard.controller.api.shape import ANYTHING, INT64, TEXTS, Integer


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectMeta(Model):
    """Metadata of an object. What only an API server writes is kept and not read."""

    name: Annotated[str, ANYTHING] = ""
    """Each kind has its own rule for it."""
    namespace: Annotated[str | None, NAMESPACE] = None
    labels: Annotated[dict[str, str], LABELS] = field(default_factory=dict)
    annotations: Annotated[dict[str, str], ANNOTATIONS] = field(default_factory=dict)
    uid: str | None = None
    generation: Annotated[int | None, Integer(maximum=INT64)] = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    resource_version: str | None = None
    generate_name: str | None = None
    finalizers: Annotated[list[str], TEXTS] = field(default_factory=list)
    owner_references: Annotated[Any, ANYTHING] = None
    managed_fields: Annotated[Any, ANYTHING] = None
    self_link: str | None = None
    deletion_grace_period_seconds: Annotated[int | None, Integer(maximum=INT64)] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateMeta(Model):
    """Labels and annotations that a template gives to what is made from it."""

    labels: Annotated[dict[str, str], LABELS] = field(default_factory=dict)
    annotations: Annotated[dict[str, str], ANNOTATIONS] = field(default_factory=dict)
