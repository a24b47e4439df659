"""Measurements of a broker that do not belong to a loaded topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.histogram import Histogram, RecentDurations
    from magnetar.base.names import NamespaceName
    from magnetar.geo.snapshots.controller import SnapshotCounts


class Durations(NamedTuple):
    """Measured durations since the start of the broker."""

    loop_stalls: Histogram
    """Delays of the event loop."""
    commits: Histogram
    """Commits of the log, see LedgerStore."""
    writes: RecentDurations
    """Times until published entries were durable, see LedgerStore."""
    metadata_commits: Histogram
    """Commits of metadata, see MetadataStore."""
    snapshots: SnapshotCounts
    """Snapshots for replicated subscriptions, of all topics."""


class Totals(NamedTuple):
    """Numbers of events since the start of the broker, also of topics that are not loaded any more."""

    deduplicated: Mapping[NamespaceName, int]
    """Duplicates that were not stored."""
    handovers: Mapping[tuple[NamespaceName, str], int]
    """Hand-overs of links from one lease to the next, by namespace and remote cluster."""
