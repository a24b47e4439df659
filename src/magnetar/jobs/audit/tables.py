"""Tables of the audit.

A *run* is a row for consecutive entries of one log: entries of one origin, with consecutive positions in the log and at
the origin. A run never crosses the bounds of a *bucket*, which has ``BUCKET`` positions of an origin ledger. A *chunk*
has ``CHUNK`` positions; the runs of all clusters in a chunk are compared together.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

BUCKET: Final = 1 << 12
"""Positions of a bucket. Entries are read again only in buckets that differ."""

CHUNK: Final = 1 << 18
"""Positions of a chunk, which bound the memory of a comparison."""

ANYWHERE: Final = ""
"""Value of ``targets`` for an entry without ``replicate_to``, which all clusters get."""


class Kind(StrEnum):
    """Kinds of findings."""

    LOST = "lost"
    """The cluster does not have the entries."""
    SKIPPED = "skipped"
    """The cluster does not have the entries, because an operator let the link skip them: they are damaged."""
    REPEATED = "repeated"
    """The cluster has the entries more than once; ``ledger`` and ``entry`` are the place of the later ones."""
    REORDERED = "reordered"
    """The entries are not in the order of their origin."""
    ALTERED = "altered"
    """The content differs from that in the cluster ``other``."""
    UNACKNOWLEDGED = "unacknowledged"
    """A subscription has not acknowledged the entries in the cluster, but in the clusters ``other``."""
    PARTLY_ACKNOWLEDGED = "partly acknowledged"
    """A subscription has acknowledged other messages of the batch than in the clusters ``other``."""
    NO_SUBSCRIPTION = "no subscription"
    """The replicated subscription does not exist in the cluster, but in the clusters ``other``."""


class Tally(StrEnum):
    """Further kinds of rows that a comparison returns, beside those of findings."""

    COMPARED = "compared"
    """Number of entries that the cluster and another one have."""
    IN_FLIGHT = "in flight"
    """Number of entries that may be on their way to the cluster."""
    NOT_COMPARABLE = "not comparable"
    """Number of entries that the cluster does not have, and is not expected to have."""
    DIFFERS = "differs"
    """A run in a bucket that differs between clusters; its entries must be compared one by one."""


_PLACE: Final = (
    ("topic", pa.string()),
    ("cluster", pa.string()),
    ("origin", pa.string()),
    ("origin_ledger", pa.int64()),
    ("origin_entry", pa.int64()),
    ("ledger", pa.int64()),
    ("entry", pa.int64()),
)
"""The place of an entry, at its origin and in a cluster."""

RUNS: Final = pa.schema(
    [
        *_PLACE,
        ("count", pa.int64()),
        ("digest", pa.int64()),  # XOR of the digests of the entries
        ("targets", pa.string()),  # clusters of replicate_to, sorted and separated by commas
        ("link_start", pa.bool_()),  # the link starts with the first entry
    ]
)
"""Runs; positions are those of the first entry."""

ENTRIES: Final = pa.schema([*_PLACE, ("digest", pa.int64())])
"""Entries of buckets that differ, one by one."""

FINDINGS: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("subscription", pa.string()),
        ("cluster", pa.string()),
        ("origin", pa.string()),
        ("origin_ledger", pa.int64()),
        ("origin_entry", pa.int64()),
        ("count", pa.int64()),
        ("ledger", pa.int64()),
        ("entry", pa.int64()),
        ("other", pa.string()),
    ]
)
"""Findings. ``count`` entries follow each other from ``origin_ledger:origin_entry`` at the origin, and from
``ledger:entry`` in the cluster; these are null for entries that the cluster does not have."""
