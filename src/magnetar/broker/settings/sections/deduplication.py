"""Settings of deduplication."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from pydantic import BaseModel, Field


class DeduplicationSettings(BaseModel):
    """Deduplication."""

    brokerDeduplicationEnabled: bool = Field(
        default=False, description="Store each message of a named producer once (PIP-6)."
    )
    brokerDeduplicationSnapshotIntervalSeconds: int = Field(
        120, ge=0, description="Maximum age in seconds of a snapshot of the producers' sequence ids; 0: any age."
    )
    brokerDeduplicationEntriesInterval: int = Field(
        1000, gt=0, description="Maximum number of entries after a snapshot of the producers' sequence ids."
    )
    brokerDeduplicationSnapshotFrequencyInSeconds: int = Field(
        120, gt=0, description="Seconds between two checks of all topics for due snapshots and inactive producers."
    )
    brokerDeduplicationMaxNumberOfProducers: int = Field(
        1_000_000,
        gt=0,
        description="Maximum number of remembered producers of a topic. Beyond it, the producers that have been "
        "inactive for longest are removed, with a warning in the log.",
    )
    brokerDeduplicationProducerInactivityTimeoutMinutes: int = Field(
        360, gt=0, description="Minutes for which a disconnected producer is remembered."
    )
