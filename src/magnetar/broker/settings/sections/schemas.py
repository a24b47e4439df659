"""Settings of the schema registry: a section of the reference page."""

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
    ] = Field("FULL", description="Compatibility strategy for new schemas of a topic.")
    isSchemaValidationEnforced: bool = Field(
        default=False, description="Reject producers without a schema in all topics with a schema."
    )
    isAllowAutoUpdateSchemaEnabled: bool = Field(
        default=True, description="Allow producers and consumers to register new schemas; false: only by the admin API."
    )
    maxSchemaSize: int = Field(
        512 * 1024, gt=0, description="Maximum bytes of one schema version, with its properties."
    )
    maxSchemaVersionsPerTopic: int = Field(1000, gt=0, description="Maximum versions of a topic's schema.")
    maxSchemasSizePerTopic: int = Field(
        4 << 20, gt=0, description="Maximum bytes of memory for all schema versions of a topic."
    )
    maxSchemasSizeInMB: int = Field(64, gt=0, description="Maximum memory for the schemas of all topics.")
