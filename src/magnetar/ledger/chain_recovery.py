"""Recovery of a topic's chain of ledgers from its stored list and the ledger store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import DataLossError, StorageError
from magnetar.base.position import EARLIEST, Position
from magnetar.ledger.append_times import AppendTimes
from magnetar.ledger.chain import ChainLedger, LedgerChain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.world import Clock
    from magnetar.ledger.store import LedgerStore

CLOCK_SET_MS = 100
"""Milliseconds by which the wall clock may move against the monotonic one without being followed. By as much, entries
seem younger after the machine has started again, because they could seem older otherwise."""


@dataclass(slots=True)
class RecoveredChain:
    """The ledgers of a topic, all closed; by default of a topic without entries."""

    wall_offset_s: float
    """The wall clock's lead over the monotonic clock, to which the times of the ledgers refer."""
    chain: LedgerChain = field(default_factory=LedgerChain)
    times: AppendTimes = field(default_factory=AppendTimes)
    """When the entries were appended."""
    last_confirmed_entry: Position = EARLIEST
    """The newest durable entry, trimmed or not."""
    is_unsaved: bool = False
    """Whether the stored list lacks when a ledger was closed, or entries that were found."""


def recover_chain(store: LedgerStore, topic: str, stored: Mapping[str, Any], clock: Clock) -> RecoveredChain:
    """Return the chain of a stored list; ledgers without entries are deleted.

    Raises DataLossError, naming two positions, if entries are missing that were once durable, and ValueError, KeyError,
    TypeError or AssertionError for a list that cannot be read.
    """
    wall_offset_s, error_ms = clock.now() - clock.monotonic(), CLOCK_SET_MS
    noted = stored.get("clock")
    if noted is not None and clock.boot() and noted["boot"] == clock.boot():
        # Until the machine starts again, the monotonic clock has the same start, also for other processes.
        wall_offset_s, error_ms = float(noted["offset"]) / 1000, 0
    recovered = RecoveredChain(wall_offset_s, last_confirmed_entry=Position.parse(str(stored["lastPosition"])))
    listed = stored["ledgers"]
    assert isinstance(listed, list)
    for info in listed:
        ledger_id, confirmed = info["ledgerId"], info["entries"]
        entries = _stored_length(store, topic, ledger_id)
        if entries < confirmed:
            found, expected = Position(ledger_id, entries - 1), Position(ledger_id, confirmed - 1)
            message = f"{topic}: the log ends at {found}, entries up to {expected} were durable"
            raise DataLossError(message)
        if entries:
            store.seal(ledger_id)
            _add_closed(recovered, info, entries, store.size_bytes(ledger_id), clock.monotonic(), error_ms)
        else:
            store.delete(ledger_id)
    count = recovered.chain.entries
    if count:
        recovered.last_confirmed_entry = max(recovered.last_confirmed_entry, recovered.chain.position_of(count - 1))
    return recovered


def _add_closed(
    recovered: RecoveredChain, info: Mapping[str, Any], entries: int, size: int, now: float, error_ms: int
) -> None:
    """Add a ledger of an earlier run: its entries were appended before it was closed.

    ``now`` is monotonic; ``error_ms`` is by how much ages may be wrong.
    """
    ledger_id, closed_ms, now_ms = info["ledgerId"], info["closedAt"], int((now + recovered.wall_offset_s) * 1000)
    # Entries that became durable after the list was written are not in it, nor is when that was.
    is_recovered = closed_ms is None or entries > info["entries"] or "recovered" in info
    if closed_ms is None:
        closed_ms, recovered.is_unsaved = now_ms, True
    recovered.chain.add(ChainLedger(ledger_id, info["createdAt"], entries, size, closed_ms, is_recovered))
    appended_by_ms = info.get("appendedBy", closed_ms)
    if entries > info["entries"]:
        appended_by_ms, recovered.is_unsaved = now_ms, True
    age_s = max(now_ms - appended_by_ms - error_ms, 0) / 1000
    recovered.times.begin_window(Position(ledger_id, 0), now - age_s)


def _stored_length(store: LedgerStore, topic: str, ledger_id: int) -> int:
    try:
        return store.length(ledger_id)
    except StorageError:
        if store.ids.has_given(ledger_id):
            return 0  # it was listed, but nothing of it became durable
        message = (
            f"{topic}: ledger {ledger_id} is unknown to the log: files of the ledger directory are missing, or "
            f"it is another one. Restore it from a copy, or delete the topic with force"
        )
        raise DataLossError(message) from None
