"""Deletion of a topic's ledgers that are no longer needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.base.errors import StorageError
    from magnetar.base.position import Position
    from magnetar.broker.topic.topic import Topic

log = structlog.get_logger(__name__)


def trimming(topic: Topic, *, by_age: bool = True) -> Iterator[None]:
    """Delete ledgers that all subscriptions have acknowledged and that retention does not keep, in steps.

    Without ``by_age``, ledgers whose retention time is over stay. Ledgers are deleted after the last step, when all
    claims on their entries are durable: after the deletion, the index of origins no longer contains them.
    """
    topic.deduplication.snapshot()
    consumed = topic.consumed_through(topic.all_cursors())
    for subscription in topic.each_subscription():
        if subscription.flushes.is_unwritten:
            subscription.flushes.now()
        yield
    topic.log.barrier(lambda error: _trim(topic, consumed, by_age=by_age) if error is None else None)


def _trim(topic: Topic, consumed: Position, *, by_age: bool) -> None:
    # A subscription may have been created, or moved back, in the meantime.
    consumed = min(consumed, topic.consumed_through(topic.all_cursors()))
    now_ms = int(topic.environment.clock.now() * 1000)
    first = topic.log.trim(consumed, now_ms, topic.policies.retention, by_age=by_age)
    if first is not None:
        topic.environment.metadata.barrier(lambda error: _trimmed(topic, first, error))


def _trimmed(topic: Topic, first: Position, error: StorageError | None) -> None:
    if error is None:
        topic.delayed.trim(first)
    else:  # the ledgers are deleted with the next list that is stored
        log.warning("trim_failed", topic=str(topic.name), error=str(error))
