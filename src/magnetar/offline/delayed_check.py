"""Check that the index of delayed messages agrees with the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import StorageError
from magnetar.broker.delayed.incarnation import INCARNATION_PROPERTY
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from magnetar.broker.delayed.store import DelayedStore
    from magnetar.ledger.managed_ledger import ManagedLedger

_READ_BYTES = 1 << 20


async def problems_of(store: DelayedStore, ledger: ManagedLedger) -> list[str]:
    """Return the differences between the index of a topic and its log; empty if the topic has no index.

    An entry that is missing from the index is not a difference: readers recognize it and withhold it.
    """
    known = store.all_entries(ledger.name)
    if known is None or known[0] != ledger.properties.get(INCARNATION_PROPERTY):
        return []
    _, watermark, entries = known
    problems = []
    if watermark > ledger.last_confirmed_entry:
        problems.append(f"indexed up to {watermark}, but the log ends at {ledger.last_confirmed_entry}")
    for deliver_at_ms, position in sorted(entries, key=lambda entry: entry.position):
        if position > ledger.last_confirmed_entry:
            problems.append(f"{position} is delayed, but the log ends at {ledger.last_confirmed_entry}")
        elif ledger.contains(position):  # else it was trimmed and will be removed from the index
            try:
                ((_, entry),) = await ledger.read(position, 1, _READ_BYTES)
            except StorageError:
                continue  # damage of the log, which the check of the log reports
            _, found_ms = wire_entry.messages_and_delivery(entry)
            if found_ms != deliver_at_ms:
                problems.append(f"{position} is due at {deliver_at_ms}, but its entry states {found_ms}")
    return [f"{store.path}: {ledger.name}: {problem}" for problem in problems]
