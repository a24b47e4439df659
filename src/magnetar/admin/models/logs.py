"""Answers about the log of a topic: its list of ledgers, the places of entries, and the analysis of a backlog."""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.admin.models.model import Model
from magnetar.base.position import Position


def position_json(position: Position) -> dict[str, int]:
    """Return a position as Pulsar shows it in the list of ledgers."""
    return {"ledgerId": position.ledger_id, "entryId": position.entry_id}


@dataclass(slots=True, kw_only=True)
class ListedLedger(Model):
    """A ledger in the list. Pulsar omits the entries and bytes of the ledger that takes appends."""

    ledger_id: int
    entries: int | None = None
    size: int | None = None
    timestamp: int = 0
    """Time of the closing in milliseconds; of the beginning, if the ledger is not closed."""
    is_offloaded: bool = False


@dataclass(slots=True, kw_only=True)
class ListedCursor(Model):
    """A cursor in the list."""

    version: int = 0
    cursors_ledger_id: int = -1
    mark_delete: dict[str, int]


@dataclass(slots=True, kw_only=True)
class ManagedLedgerInfo(Model):
    """The stored list of ledgers and cursors of a topic."""

    version: int
    creation_date: str | None = None
    modification_date: str | None = None
    ledgers: list[ListedLedger] = field(default_factory=list)
    terminated_position: dict[str, int] | None = None
    cursors: dict[str, ListedCursor] = field(default_factory=dict)
    properties: dict[str, str] | None = None


@dataclass(slots=True, kw_only=True)
class MessageLocation(Model):
    """Ours. The place of an entry in this cluster, found by its position at its origin."""

    state: str
    """``present``; ``trimmed``: it was here, or entries after it; ``notArrived``: no entry of the origin at or after it
    is here; ``notForThisCluster``: later entries of the origin are here; ``absent``: nothing was published there, or it
    was lost."""
    position: Position | None = None
    """The position here, if the entry is present."""
    replicate_to: list[str] | None = None
    """The clusters to which the entry is replicated, none for all; absent unless the entry can be read here."""


@dataclass(slots=True, kw_only=True)
class MessageOrigin(Model):
    """Ours. The cluster that published the entry at a position of this cluster, and the position there."""

    state: str
    """``present``, ``trimmed``, or ``absent``: there is no entry at this position."""
    cluster: str | None = None
    position: Position | None = None


@dataclass(slots=True, kw_only=True)
class ProducerState(Model):
    """Ours. What the next producers of a topic continue; it outlives their messages."""

    topic_epoch: int | None = None
    """Epoch of the last exclusive producer; absent before the first one."""
    sequence_ids: dict[str, int] | None = None
    """Highest durable sequence id of each producer; absent if deduplication is off."""


@dataclass(slots=True, kw_only=True)
class FormerCluster(Model):
    """Ours. The cluster from which the clients of a topic came with message ids, which are translated."""

    cluster: str
    ledgers_below: int
    """Ids with a lower ledger are those of the former cluster."""


@dataclass(slots=True, kw_only=True)
class AnalyzedBacklog(Model):
    """Counts of the entries and messages that a subscription has not acknowledged. There are no filters of entries."""

    entries: int = 0
    messages: int = 0
    filter_rejected_entries: int = 0
    filter_accepted_entries: int = 0
    filter_rescheduled_entries: int = 0
    filter_rejected_messages: int = 0
    filter_accepted_messages: int = 0
    filter_rescheduled_messages: int = 0
    aborted: bool = False
    """Whether the backlog was too large to read all of it."""
    first_message_id: str | None = None
    last_message_id: str | None = None
