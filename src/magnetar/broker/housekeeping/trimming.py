"""Deletion of a topic's ledgers that are no longer needed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

from magnetar.base.position import Position
from magnetar.cursor.ranges import Range
from magnetar.metadata.policy.values import RetentionPolicies

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.topic import Topic

log = structlog.get_logger(__name__)


_NO_RETENTION = RetentionPolicies(retentionTimeInMinutes=0, retentionSizeInMB=0)


def trimming(topic: Topic, *, by_age: bool = True, is_retained: bool = True) -> Generator[None, None, None]:
    """Delete ledgers that all subscriptions have acknowledged and that retention does not keep, in steps.

    Without ``by_age``, ledgers whose retention time is over stay; without ``is_retained``, there is no retention.
    Ledgers are deleted after the last step, when all claims on their entries are durable: after the deletion, the index
    of origins no longer contains them. Nothing is deleted while a migration has fenced the topic.
    """
    if topic.log.migration_fence.is_set:
        return
    topic.deduplication.snapshot()
    consumed = topic.consumed_through(topic.all_cursors())
    for subscription in topic.each_subscription():
        if subscription.flushes.is_unwritten:
            subscription.flushes.now()
        yield

    def durable(error: StorageError | None) -> None:
        if error is None:
            _trim(topic, consumed, by_age=by_age, is_retained=is_retained)

    topic.log.barrier(durable)


def _trim(topic: Topic, consumed: Position, *, by_age: bool, is_retained: bool) -> None:
    # A subscription may have been created or moved back, or retention set, in the meantime.
    retention = topic.policies.retention if is_retained else _NO_RETENTION
    consumed = min(consumed, topic.consumed_through(topic.all_cursors()))
    now_ms = int(topic.environment.clock.now() * 1000)
    before = [(each.ledger_id, each.entries) for each in topic.ledger.ledgers()]
    first = topic.log.trim(consumed, now_ms, retention, by_age=by_age)
    if first is not None:
        left = {each.ledger_id for each in topic.ledger.ledgers()}
        trimmed = [_range(*each) for each in before if each[1] and each[0] not in left]
        if trimmed:  # in slices, since there may be many readers
            work = partial(_give_up, trimmed=trimmed)
            topic.environment.sliced.start(object(), topic.each_subscription(), work)
        topic.environment.metadata.barrier(lambda error: _trimmed(topic, first, error))


def _range(ledger_id: int, entries: int) -> Range:
    return Range(Position(ledger_id, 0), Position(ledger_id, entries - 1))


def _give_up(subscription: Subscription, trimmed: Sequence[Range]) -> None:
    """Give up trimmed entries, ascending; a subscription that is not durable does not prevent the trimming."""
    if not subscription.is_durable and trimmed[-1].last > subscription.cursor.state.mark_delete_position:
        subscription.cursor.acknowledge_cumulative(trimmed[-1].last)
        subscription.free(trimmed)


def _trimmed(topic: Topic, first: Position, error: StorageError | None) -> None:
    if error is None:
        topic.delayed.trim(first)
    else:  # the ledgers are deleted with the next list that is stored
        log.warning("trim_failed", topic=str(topic.name), error=str(error))
