"""Recovery of a cursor from the records in its ledger, and from the fallback in the metadata store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import CorruptionError, StorageError
from magnetar.cursor.records import Change, Recovered

if TYPE_CHECKING:
    from magnetar.cursor.info import CursorInfo
    from magnetar.ledger.store import LedgerStore


def replay(info: CursorInfo) -> tuple[Recovered, Change]:
    """Replay all records of a cursor; also return the change that its ledger lacks, until the next checkpoint.

    A ledger without a record is no longer named by ``info``. Raises CorruptionError if a record cannot be read.
    """
    store, recovered, lacking = info.home.store, Recovered(info.began), Change()
    if info.ledger_id is not None and _exists(store, info.ledger_id):
        if store.size_bytes(info.ledger_id):
            message = f"record of a cursor cannot be read: ledger {info.ledger_id} holds entries, so it is a topic's"
            raise CorruptionError(message)
        for run in store.runs(info.ledger_id):
            recovered.apply(run.annotation)
    if not recovered.found:
        info.ledger_id = None
    fallback = info.fallback
    if fallback is not None and fallback.number > recovered.fallbacks:
        recovered.apply(fallback.record)
        recovered.fallbacks = fallback.number
        lacking = Change.in_record(fallback.record)
    return recovered, lacking


def _exists(store: LedgerStore, ledger_id: int) -> bool:
    try:
        store.length(ledger_id)  # touches no disk, so the only error is that there is no such ledger
    except StorageError:
        return False
    return True
