"""Deleting ledgers that metadata names, so that neither side is left alone with them by a crash.

What is to be deleted is noted at ``/deleting-ledgers/<first id>``, a JSON list of ids, in the same transaction that
takes the ledgers out of whatever named them. The note goes when the store has forgotten them durably.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING

import structlog

from magnetar.metadata.store import Delete, Put

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.ledger.store import LedgerStore
    from magnetar.metadata.store import MetadataStore

log = structlog.get_logger(__name__)

_NOTES = "/deleting-ledgers"


def note_deletion(ledger_ids: Sequence[int]) -> Put:
    """Return the write that notes the deletion of at least one ledger. ``delete_noted`` follows when it is durable."""
    return Put(note_of(ledger_ids), json.dumps(list(ledger_ids)).encode())


def delete_noted(store: LedgerStore, metadata: MetadataStore, ledger_ids: Sequence[int]) -> None:
    """Delete ledgers whose deletion is noted, and then the note."""
    deque(deletion_steps(store, metadata, ledger_ids), maxlen=0)


def deletion_steps(store: LedgerStore, metadata: MetadataStore, ledger_ids: Sequence[int]) -> Iterator[None]:
    """As ``delete_noted``, in steps; if these end early, the next start deletes the rest."""
    for ledger_id in ledger_ids:
        store.delete(ledger_id)
        yield

    def forget(error: StorageError | None) -> None:
        if error is None:
            metadata.commit([Delete(note_of(ledger_ids))])

    if ledger_ids:
        store.barrier(forget)


def note_of(ledger_ids: Sequence[int]) -> str:
    """Where the deletion of at least one ledger is noted."""
    return f"{_NOTES}/{ledger_ids[0]}"


def finish_deletions(store: LedgerStore, metadata: MetadataStore) -> None:
    """Delete what was noted before a crash; to be called once, when the store has been opened."""
    for ledger_ids in _noted(metadata):
        delete_noted(store, metadata, ledger_ids)


def noted_deletions(metadata: MetadataStore) -> list[int]:
    """Return the ledgers whose deletion was noted and not yet finished."""
    return [ledger_id for ledger_ids in _noted(metadata) for ledger_id in ledger_ids]


def _noted(metadata: MetadataStore) -> Iterator[list[int]]:
    for name in metadata.children(_NOTES):
        note = f"{_NOTES}/{name}"
        stored = metadata.get(note)
        assert stored is not None
        try:
            ledger_ids = [int(each) for each in json.loads(stored.value)]
        except (ValueError, TypeError) as error:  # its ledgers take space; no topic depends on them any more
            log.warning("deletion_not_finished", note=note, error=str(error))
        else:
            yield ledger_ids
