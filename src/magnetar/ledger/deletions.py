"""Deleting ledgers that metadata names, so that neither side is left alone with them by a crash.

What is to be deleted is noted at ``/deleting-ledgers/<first id>``, a JSON list of ids, in the same transaction that
takes the ledgers out of whatever named them. The note goes when the store has forgotten them durably.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import NotFoundError, StorageError
from magnetar.metadata.store import Put

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from magnetar.ledger.store import LedgerStore
    from magnetar.metadata.store import MetadataStore

log = structlog.get_logger(__name__)

_NOTES = "/deleting-ledgers"


def delete_ledgers(
    store: LedgerStore, metadata: MetadataStore, ledger_ids: Sequence[int], put: Put, along_with: Sequence[Put] = ()
) -> int:
    """Delete at least one ledger together with ``put``, which no longer names them; return the version of that.

    ``along_with`` is written in the same transaction.
    """
    note = note_of(ledger_ids)
    version, *_ = metadata.put_many([put, Put(note, json.dumps(list(ledger_ids)).encode()), *along_with])
    _delete(store, metadata, ledger_ids, note)
    return version


def note_of(ledger_ids: Sequence[int]) -> str:
    """Where the deletion of at least one ledger is noted."""
    return f"{_NOTES}/{ledger_ids[0]}"


def finish_deletions(store: LedgerStore, metadata: MetadataStore) -> None:
    """Delete what was noted before a crash; to be called once, when the store has been opened."""
    for note, ledger_ids in _notes(metadata):
        _delete(store, metadata, ledger_ids, note)


def noted_deletions(metadata: MetadataStore) -> list[int]:
    """Return the ledgers whose deletion was noted and not yet finished."""
    return [ledger_id for _, ledger_ids in _notes(metadata) for ledger_id in ledger_ids]


def _notes(metadata: MetadataStore) -> Iterator[tuple[str, list[int]]]:
    for name in metadata.children(_NOTES):
        note = f"{_NOTES}/{name}"
        stored = metadata.get(note)
        assert stored is not None
        try:
            ledger_ids = [int(each) for each in json.loads(stored.value)]
        except (ValueError, TypeError) as error:  # its ledgers take space; no topic depends on them any more
            log.warning("deletion_not_finished", note=note, error=str(error))
        else:
            yield note, ledger_ids


def _delete(store: LedgerStore, metadata: MetadataStore, ledger_ids: Sequence[int], note: str) -> None:
    for ledger_id in ledger_ids:
        store.delete(ledger_id)

    def forget(error: StorageError | None) -> None:
        if error is None:
            with suppress(NotFoundError, StorageError):  # the next start finishes it
                metadata.delete(note)

    store.barrier(forget)
