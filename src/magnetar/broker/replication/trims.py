"""Waiting for trims to be durable, because a crash brings back entries whose trim is not.

Such entries must not lie before the position of a subscription that was created without them: they would count as
acknowledged. They must not lie before the start of a link either: the target would lack them for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import StorageError

if TYPE_CHECKING:
    from magnetar.broker.log.interfaces import LoggedTopic
    from magnetar.metadata.store import OnDurable


def when_trims_are_stored(topic: LoggedTopic, done: OnDurable) -> None:
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
