"""Limits of what a cursor persists, each with its default."""

from __future__ import annotations

from dataclasses import dataclass

RECORD_BYTES_MAX = 64 * 1024
"""Bytes of one write to a cursor's ledger; what is larger is written in pieces."""

UNACKED_RANGES_MAX = 10_000_000
"""Ranges of deleted entries. Pulsar writes them all again with each change and so has 10,000; here a range costs some
bytes, once, and again with each checkpoint."""

BATCH_DELETED_MAX = 100_000
"""Batches that are acknowledged in part."""

METADATA_RANGES_MAX = 1000
"""Ranges and batches in the metadata store, which takes over while the ledger cannot be written."""

METADATA_RECORD_BYTES_MAX = 1024 * 1024
"""Bytes of what goes to the metadata store; ZooKeeper takes no more in one value."""


@dataclass(frozen=True, slots=True)
class CursorLimits:
    """What applies to the cursors of a broker."""

    record_bytes_max: int = RECORD_BYTES_MAX
    unacked_ranges_max: int = UNACKED_RANGES_MAX
    batch_deleted_max: int = BATCH_DELETED_MAX
    metadata_ranges_max: int = METADATA_RANGES_MAX


DEFAULT_LIMITS = CursorLimits()
