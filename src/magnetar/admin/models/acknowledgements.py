"""The complete acknowledgement state of a subscription, in pages, and what a migration waits for in a topic."""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.admin.models.model import Model
from magnetar.base.position import Position


@dataclass(slots=True, kw_only=True)
class AcknowledgementState(Model):
    """Ours. A page of the acknowledgement state of a subscription, in positions of this cluster."""

    mark_delete_position: Position
    ranges: list[list[int]] = field(default_factory=list)
    """Acknowledged entries after the mark-delete position: ledger, first and last entry, both inclusive; ascending."""
    batches: dict[str, list[int]] = field(default_factory=dict)
    """Partly acknowledged batches: the messages that are not acknowledged, by position, as an ack set of the
    protocol."""
    next: str | None = None
    """Value of ``after`` for the next page; None: this is the last one."""


@dataclass(slots=True, kw_only=True)
class SetFence(Model):
    """Ours. A migration fence."""

    migration: str
    epoch: int
    """Number of the migration's attempt to switch the topic."""
    phase: str
    """``settling``: acknowledgements are accepted; ``closed``: no longer; ``final``: another cluster may serve the
    clients."""
    lease_seconds: float | None = None
    """Duration of the lease; None: a final fence has none."""
    lease_ends_in_seconds: float | None = None
    """Time until the lease is over, and clients go on in this cluster."""


@dataclass(slots=True, kw_only=True)
class FencedSubscription(Model):
    """Ours. A durable subscription, as a migration sees it."""

    SHOWS_NONE = True

    unacknowledged_messages: int
    """Messages that were sent to connected consumers and are not acknowledged. For Exclusive and Failover
    subscriptions an estimate, of which 0 is exact."""
    unacknowledged_entries: int
    """Unacknowledged entries of the log, including those that were not sent."""
    is_replicated: bool
    digest: str | None = None
    """Digest of the unacknowledged messages by their origin, equal in clusters whose states are equal."""
    progress_unconfirmed: dict[str, int | None] = field(default_factory=dict)
    """By remote cluster: acknowledged entries that it has not confirmed; null: unknown."""
    progress_age_seconds: dict[str, float | None] = field(default_factory=dict)
    """By remote cluster: age of the oldest acknowledgement that it has not confirmed, also of a part of a batch (0.0:
    all are confirmed; null: unknown)."""


@dataclass(slots=True, kw_only=True)
class FencedLink(Model):
    """Ours. A link to another cluster, as a migration sees it."""

    SHOWS_NONE = True

    backlog: int | None = None
    """Entries published here that the other cluster does not have; None: unknown."""
    connected: bool = False
    """Whether a pipeline carries the link."""
    parked_reason: str | None = None
    """Reason why the pipeline has parked the link."""


@dataclass(slots=True, kw_only=True)
class FencedTopic(Model):
    """Ours. A topic, as a migration sees it, with or without a fence."""

    SHOWS_NONE = True

    last_position: Position
    """The last entry of the log."""
    fence: SetFence | None = None
    subscriptions: dict[str, FencedSubscription] = field(default_factory=dict)
    links: dict[str, FencedLink] = field(default_factory=dict)
    """By remote cluster."""
