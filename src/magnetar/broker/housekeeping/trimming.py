"""Deletion of a topic's ledgers that are no longer needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.metadata.policy.values import RetentionPolicies

if TYPE_CHECKING:
    from collections.abc import Generator

    from magnetar.base.errors import StorageError
    from magnetar.base.position import Position
    from magnetar.broker.topic.topic import Topic

log = structlog.get_logger(__name__)


_NO_RETENTION = RetentionPolicies(retentionTimeInMinutes=0, retentionSizeInMB=0)


def trimming(topic: Topic, *, by_age: bool = True, is_retained: bool = True) -> Generator[None, None, None]:
    """Delete ledgers that all subscriptions have acknowledged and that retention does not keep, in steps.

    Without ``by_age``, ledgers whose retention time is over stay; without ``is_retained``, there is no retention.
    Ledgers are deleted after the last step, when all claims on their entries are durable: after the deletion, the index
    of origins no longer contains them.
    """
    topic.deduplication.snapshot()
    consumed = topic.consumed_through(topic.all_cursors())
    for subscription in topic.each_subscription():
        if subscription.flushes.is_unwritten:
            subscription.flushes.now()
        yield
    retention = topic.policies.retention if is_retained else _NO_RETENTION
    topic.log.barrier(lambda error: _trim(topic, consumed, retention, by_age=by_age) if error is None else None)


def _trim(topic: Topic, consumed: Position, retention: RetentionPolicies, *, by_age: bool) -> None:
    # A subscription may have been created, or moved back, in the meantime.
    consumed = min(consumed, topic.consumed_through(topic.all_cursors()))
    now_ms = int(topic.environment.clock.now() * 1000)
    first = topic.log.trim(consumed, now_ms, retention, by_age=by_age)
    if first is not None:
        topic.environment.metadata.barrier(lambda error: _trimmed(topic, first, error))


def _trimmed(topic: Topic, first: Position, error: StorageError | None) -> None:
    if error is None:
        topic.delayed.trim(first)
    else:  # the ledgers are deleted with the next list that is stored
        log.warning("trim_failed", topic=str(topic.name), error=str(error))
