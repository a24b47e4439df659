"""The settings of the schema registry: a section of the reference page."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class SchemaSettings(BaseModel):
    """Schemas."""

    schemaCompatibilityStrategy: Literal[
        "FULL",
        "BACKWARD",
        "FORWARD",
        "FULL_TRANSITIVE",
        "BACKWARD_TRANSITIVE",
        "FORWARD_TRANSITIVE",
        "ALWAYS_COMPATIBLE",
        "ALWAYS_INCOMPATIBLE",
    ] = Field("FULL", description="How a new schema of a topic must fit those that the topic has.")
    isSchemaValidationEnforced: bool = Field(
        default=False, description="Refuse producers without a schema in all topics that have one."
    )
    isAllowAutoUpdateSchemaEnabled: bool = Field(
        default=True, description="Let producers and consumers bring new schemas; false: only the admin API does."
    )
    maxSchemaSize: int = Field(
        512 * 1024, gt=0, description="Bytes of one version of a schema, its definition and properties."
    )
    maxSchemaVersionsPerTopic: int = Field(1000, gt=0, description="Versions of the schema of a topic.")
    maxSchemasSizePerTopic: int = Field(
        4 << 20, gt=0, description="Bytes of memory for all versions of the schema of a topic."
    )
    maxSchemasSizeInMB: int = Field(64, gt=0, description="Memory for the schemas of all topics.")
