"""Answers about schemas."""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.admin.models.model import Model


@dataclass(slots=True, kw_only=True)
class GetSchemaResponse(Model):
    """A version of a schema."""

    version: int
    type: str
    timestamp: int
    """Time of the registration in milliseconds."""
    data: str
    """Definition of the schema; for pairs of key and value, both definitions."""
    properties: dict[str, str]


@dataclass(slots=True, kw_only=True)
class GetAllVersionsSchemaResponse(Model):
    """All versions of a schema."""

    get_schema_responses: list[GetSchemaResponse]


@dataclass(slots=True, kw_only=True)
class LongSchemaVersion(Model):
    """The number of a version; -1: none."""

    version: int


@dataclass(slots=True, kw_only=True)
class PostSchemaResponse(Model):
    """The number of a registered version."""

    version: LongSchemaVersion


@dataclass(slots=True, kw_only=True)
class IsCompatibilityResponse(Model):
    """Whether a schema could be registered."""

    compatibility: bool
    schema_compatibility_strategy: str
