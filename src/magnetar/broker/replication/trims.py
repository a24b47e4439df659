"""Waiting for trims to be durable, before something of another cluster is applied to a topic.

Trimmed entries that a crash brings back must not lie before the position of a subscription that was created without
them: they would count as acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import StorageError

if TYPE_CHECKING:
    from magnetar.broker.replication.interfaces import TopicWithSubscriptions
    from magnetar.metadata.store import OnDurable


def when_trims_are_stored(topic: TopicWithSubscriptions, done: OnDurable) -> None:
    """Call ``done`` when the changes of the metadata store until now are durable, with the list of ledgers.

    It gets the error if the list cannot be stored; it may be called before the function returns.
    """
    ledger = topic.ledger
    if ledger.is_trim_unstored and not ledger.is_being_listed:
        ledger.save()
    if ledger.is_trim_unstored and not ledger.is_being_listed:
        done(ledger.failure or StorageError(f"{topic.name}: a trim is not durable"))
    else:
        topic.environment.metadata.barrier(done)
