"""Deletion of a topic that is not loaded, by request of an operator: it cannot be loaded (ADR 14), or is stranded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import StorageError
from magnetar.broker.log.origin_summaries import summaries_path
from magnetar.cursor.store import cursor_ledgers
from magnetar.ledger.deletions import deletion_steps, note_deletion
from magnetar.ledger.ledger_list import listed_ledgers
from magnetar.metadata.resources import managed_ledger_path
from magnetar.metadata.store import Delete

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.ledger.store import LedgerStore
    from magnetar.metadata.store import OnDurable, Put

log = structlog.get_logger(__name__)


def delete_unloaded(environment: Environment, name: TopicName, done: OnDurable, *, event: str) -> None:
    """Delete a topic that exists and is not loaded, with subscriptions, schemas, and all ledgers that it lists.

    It is logged as ``event``.

    The deletion is one transaction; ``done`` is called when it is durable, or with the reason why nothing is deleted.
    The topic's log is not read. A ledger that only an unreadable record names stays in the log. The next start deletes
    it if it is certain that the ledger was listed once, and names it in ``ledgers_not_listed`` otherwise.
    """
    store, metadata, path = environment.store, environment.metadata, managed_ledger_path(name)
    stored = metadata.get(path)
    assert stored is not None
    listed = listed_ledgers(stored.value)
    cursors = dict(cursor_ledgers(metadata, name))
    summaries = summaries_path(name)
    removed = [*cursors, *(f"{summaries}/{child}" for child in metadata.children(summaries))]
    schemas = environment.schemas.removal(name)
    operations: list[Put | Delete] = [Delete(path, stored.version), *map(Delete, removed), *schemas]
    named = (found for found in cursors.values() if found is not None and found >= 0)
    doomed = [*(listed or ()), *(found for found in named if not _holds_entries(store, found))]
    if doomed:
        operations.append(note_deletion(doomed))
    unreadable = [cursor for cursor, found in cursors.items() if found is None] + ([path] if listed is None else [])

    def deleted(error: StorageError | None) -> None:
        if error is None:
            log.warning(event, topic=str(name), ledgers=len(doomed), ledgers_unknown_of=unreadable)
            environment.sliced.start(object(), deletion_steps(store, metadata, doomed), lambda _: None)
            environment.delayed.do(lambda each: each.forget(str(name)), lambda _, late: _delayed_forgotten(name, late))
        done(error)

    metadata.commit(operations, deleted)


def _holds_entries(store: LedgerStore, ledger_id: int) -> bool:
    """Return whether a ledger is a topic's: only a damaged record of a cursor names it."""
    try:
        return store.size_bytes(ledger_id) > 0
    except StorageError:
        return False  # nothing was written to it


def _delayed_forgotten(name: TopicName, error: StorageError | None) -> None:
    if error is not None:
        log.warning("delayed_index_not_cleaned", topic=str(name), error=str(error))
