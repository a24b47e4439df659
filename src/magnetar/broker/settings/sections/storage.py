"""Settings of storage."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from pydantic import BaseModel, Field


class StorageSettings(BaseModel):
    """Storage."""

    journalSyncData: bool = Field(
        default=True, description="Sync the disk before a receipt; false: a power loss can lose recent entries."
    )
    firstLedgerId: int = Field(
        0,
        ge=0,
        description="Lowest ledger id of a new data directory, if it is greater than the current time in milliseconds. "
        "Needed by a cluster that lost its data and whose clock is behind; errors from other clusters name the id.",
    )
    diskLowWaterBytes: int = Field(
        64 << 20, ge=0, description="Free disk space in bytes below which publishing pauses; 0: no check."
    )
    diskReserveBytes: int = Field(
        32 << 20, ge=0, description="Disk space in bytes reserved for acknowledgements and metadata."
    )
    logSizeLimit: int = Field(
        64 << 20, gt=0, le=1 << 30, description="Size in bytes after which the shared log starts a new file."
    )
    managedLedgerMaxEntriesPerLedger: int = Field(50_000, gt=0, description="Entries after which a ledger is sealed.")
    managedLedgerMaxSizePerLedgerMbytes: int = Field(2048, gt=0, description="Size after which a ledger is sealed.")
    managedLedgerMinLedgerRolloverTimeMinutes: int = Field(
        10, ge=0, description="Minimum age in minutes of a ledger before it is sealed."
    )
    managedLedgerMaxLedgerRolloverTimeMinutes: int = Field(
        240, gt=0, description="Age in minutes after which a ledger is sealed at the next append."
    )
    managedLedgerMaxReadsInFlightSizeInMB: int = Field(
        0,
        ge=0,
        description="Maximum size of the entries of all subscriptions that are read from the disk for dispatch and not "
        "sent yet. 0: a sixteenth of memoryLimitMB.",
    )
    managedLedgerCacheSizeMB: int = Field(
        -1,
        ge=-1,
        description="Size of the cache of the newest entries of all topics, with overhead; -1: an eighth of "
        "memoryLimitMB.",
    )
