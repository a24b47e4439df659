"""Measurements of a broker that do not belong to a loaded topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.errors import AuthenticationFailure
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


class AuthenticationTotals(NamedTuple):
    """Numbers of connections and requests since the start of the broker, by authentication method."""

    successes: Mapping[str, int]
    failures: Mapping[tuple[str, AuthenticationFailure], int]
    """Also by the kind of the failure."""


class AuditTotals(NamedTuple):
    """Numbers of events of the audit log since the start of the broker."""

    events: Mapping[str, int]
    """By result, including suppressed and lost ones."""
    suppressed: int
    """Events that were not written because their source had caused too many."""
    lost: int
    """Events that could not be written."""
    is_failing: bool
    """Whether the last event could not be written."""


class Totals(NamedTuple):
    """Numbers of events since the start of the broker, also of topics that are not loaded any more."""

    deduplicated: Mapping[NamespaceName, int]
    """Duplicates that were not stored."""
    handovers: Mapping[tuple[NamespaceName, str], int]
    """Hand-overs of links from one lease to the next, by namespace and remote cluster."""
    authentication: AuthenticationTotals | None = None
    """Authenticated and refused clients; None if the broker does not authenticate."""
    audit: AuditTotals | None = None
    """Events of the audit log; None without one."""
