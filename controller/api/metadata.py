"""Metadata of our objects."""

from typing import Annotated, Any

from pydantic import Field, SkipValidation

from trainyard.controller.api.strict_model import Labels, StrictModel

Unread = Annotated[Any, SkipValidation]


class ObjectMeta(StrictModel):
    """Metadata of an object; the shapes of `names_shape` check its values."""

    name: Annotated[str, SkipValidation]
    namespace: Annotated[str | None, SkipValidation] = None
    labels: Labels = Field(default_factory=dict)
    annotations: Labels = Field(default_factory=dict)
    uid: Annotated[str | None, SkipValidation] = None
    generation: Unread = None
    creation_timestamp: Annotated[str | None, SkipValidation] = None
    deletion_timestamp: Annotated[str | None, SkipValidation] = None
    resource_version: Annotated[str | None, SkipValidation] = None
    generate_name: Unread = None
    finalizers: Unread = None
    owner_references: Unread = None
    managed_fields: Unread = None
    self_link: Unread = None
    deletion_grace_period_seconds: Unread = None


class TemplateMeta(StrictModel):
    """Labels and annotations that a template gives to what is made from it."""

    labels: Labels = Field(default_factory=dict)
    annotations: Labels = Field(default_factory=dict)
