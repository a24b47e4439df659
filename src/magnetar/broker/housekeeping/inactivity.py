"""Deletion of subscriptions and topics that nobody has used for some time, if policies request it.

The times since which they are unused are stored, since unused topics are unloaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.broker.housekeeping.idleness import INACTIVE_SINCE, MINUTE_S, is_inactive, is_retained, may_expire
from magnetar.broker.subscription.names import UNUSED_SINCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.base.errors import StorageError
    from magnetar.broker.topic.topic import Topic

log = structlog.get_logger(__name__)


def expiring(topic: Topic, now: float) -> Iterator[None]:
    """Delete the expired subscriptions of a topic in steps; ``now`` in seconds since the epoch.

    None is deleted while a migration has fenced the topic.
    """
    minutes = topic.policies.subscription_expiration_minutes
    for subscription in topic.each_subscription():
        if minutes and may_expire(subscription) and not topic.log.migration_fence.is_set:
            since_ms = subscription.cursor.properties.get(UNUSED_SINCE)
            if since_ms is None:
                subscription.cursor.set_property(UNUSED_SINCE, int(now * 1000))
                subscription.flushes.soon()
            elif now - since_ms / 1000 > minutes * MINUTE_S:
                log.info("subscription_expired", topic=str(topic.name), subscription=subscription.name)
                topic.delete_subscription(subscription, _report_failure)
        yield


def _report_failure(error: StorageError | None) -> None:
    if error is not None:
        log.warning("subscription_not_expired", error=str(error))


def has_expired(topic: Topic, now: float) -> bool:
    """Return whether a topic is to be deleted, and note when it was first found inactive."""
    policy, ledger = topic.policies.inactive_topics, topic.ledger
    arrivals = topic.arrivals
    was_active = arrivals.messages_in != arrivals.messages_at_check
    arrivals.messages_at_check = arrivals.messages_in
    since = ledger.properties.get(INACTIVE_SINCE)
    if not policy.deleteWhileInactive or was_active or not is_inactive(topic):
        if since is not None:
            ledger.remove_property(INACTIVE_SINCE)
        return False
    if since is None:
        ledger.set_property(INACTIVE_SINCE, str(int(now * 1000)))
        return False
    inactive_s = now - int(since) / 1000
    return inactive_s >= policy.maxInactiveDurationSeconds and not is_retained(topic, inactive_s)
