"""The ledgers and cursors of a topic."""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.admin.models.model import Model
from magnetar.base.position import EARLIEST, Position


@dataclass(slots=True, kw_only=True)
class LedgerInfo(Model):
    """One ledger of a topic; Pulsar shows 0 entries and 0 bytes for the open ledger."""

    ledger_id: int = -1
    entries: int = -1
    size: int = -1
    offloaded: bool = False
    under_replicated: bool = False


@dataclass(slots=True, kw_only=True)
class CursorStats(Model):
    """One cursor; ``individually_deleted_messages`` in Pulsar's notation, ``[(1:2..1:4],(1:7..1:8]]``."""

    mark_delete_position: Position
    read_position: Position
    waiting_read_op: bool = False
    pending_read_ops: int = 0
    messages_consumed_counter: int = 0
    cursor_ledger: int = -1
    cursor_ledger_last_entry: int = -1
    individually_deleted_messages: str = "[]"
    individually_deleted_messages_omitted: int | None = None
    """Ours. Number of ranges that ``individually_deleted_messages`` omits, which are the highest ones."""

    last_ledger_switch_timestamp: str | None = None
    state: str = "Open"
    active: bool = False
    number_of_entries_since_first_not_acked_message: int = 0
    total_non_contiguous_deleted_messages_range: int = 0
    subscription_have_pending_read: bool = False
    subscription_have_pending_replay_read: bool = False
    properties: dict[str, int] = field(default_factory=dict)
    """Cursor of deduplication: the producers of its last snapshot and their sequence ids (PIP-6)."""

    properties_omitted: int | None = None
    """Ours. Number of producers that ``properties`` omits."""


@dataclass(slots=True, kw_only=True)
class PersistentTopicInternalStats(Model):
    """A topic's managed ledger."""

    entries_added_counter: int = 0
    number_of_entries: int = 0
    total_size: int = 0
    current_ledger_entries: int = 0
    current_ledger_size: int = 0
    last_ledger_created_timestamp: str | None = None
    waiting_cursors_count: int = 0
    pending_add_entries_count: int = 0
    last_confirmed_entry: Position = EARLIEST
    state: str = "LedgerOpened"
    ledgers: list[LedgerInfo] = field(default_factory=list)
    cursors: dict[str, CursorStats] = field(default_factory=dict)
    schema_ledgers: list[LedgerInfo] = field(default_factory=list)
    compacted_ledger: LedgerInfo = field(default_factory=LedgerInfo)
    trimmed_origins: dict[str, Position] | None = None
    """Ours. Newest trimmed entry of each cluster, in positions of the cluster that published it. None: none."""
    may_lack_entries: bool | None = None
    """True after a crash with journalSyncData=false: confirmed entries may be lost. None: no entry is lost."""
    entries_known_lost: int | None = None
    """Entries that are certainly lost; more may be lost. None: unknown, or ``may_lack_entries`` is None."""
