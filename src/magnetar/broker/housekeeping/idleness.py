"""Detection of unused topics, and the time at which an unused topic needs maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.position import Position
from magnetar.broker.subscription.names import UNUSED_SINCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.broker.topic.topic import Topic

MINUTE_S = 60

INACTIVE_SINCE = "pulsar.topic.inactive-since"
"""Managed-ledger property: milliseconds since the epoch at which a topic was first found inactive."""


def is_unused(topic: Topic) -> bool:
    """Return whether a topic can be unloaded unnoticed: it has no client, no link and no work in progress."""
    return not (
        topic.is_closing
        or topic.producers
        or topic.producers.access.waiting
        or topic.replicators
        or any(each.is_in_use or not each.is_durable for each in topic.subscriptions.values())
    )


def maintenance_due_in_s(topic: Topic, now: float) -> float | None:
    """Return the seconds until entries of an unused topic become too old; ``now`` in seconds since the epoch.

    0.0 if entries are too old already. None if only a client or a changed policy can cause maintenance.
    """
    return min(_needs(topic, now), default=None)


def _needs(topic: Topic, now: float) -> Iterator[float]:
    fence = topic.log.migration_fence
    if fence.is_set:  # until the end of its lease, everything rests
        if fence.lease_left_s is not None:
            yield fence.lease_left_s
        return
    ledger, policies = topic.ledger, topic.policies
    yield from _deletion_due_in_s(topic, now)
    oldest = ledger.next_position(topic.backlog_quotas.slowest)
    if oldest <= ledger.last_confirmed_entry:
        age_s = ledger.age_of(oldest)
        if policies.message_ttl_s:
            yield max(policies.message_ttl_s - age_s, 0.0)
        quota = policies.backlog_quotas["message_age"]
        if quota.limitTime > 0 and quota.policy == "consumer_backlog_eviction":
            yield max(quota.limitTime - age_s, 0.0)
    retained_min = policies.retention.retentionTimeInMinutes
    if not ledger.entries or retained_min < 0:
        return
    first = ledger.ledgers()[0]
    if Position(first.ledger_id, first.entries - 1) <= topic.consumed_through(topic.all_cursors()):
        closed_for_s = now - first.closed_ms / 1000 if first.closed_ms is not None else 0.0
        yield max(retained_min * MINUTE_S - closed_for_s, 0.0)


class Unused(Protocol):
    """A subscription."""

    @property
    def is_durable(self) -> bool:
        """Whether it outlives its consumers."""
        ...

    @property
    def is_in_use(self) -> bool:
        """Whether it has consumers, or will have some soon."""
        ...

    @property
    def is_replicated(self) -> bool:
        """Whether other clusters have it, too."""
        ...


def may_expire(subscription: Unused) -> bool:
    """Return whether the subscription may be deleted after some time: nobody uses it, and it is not replicated."""
    return subscription.is_durable and not subscription.is_in_use and not subscription.is_replicated


def _deletion_due_in_s(topic: Topic, now: float) -> Iterator[float]:
    """Yield the seconds until an unused topic, or one of its subscriptions, may be deleted."""
    minutes = topic.policies.subscription_expiration_minutes
    if minutes:
        for subscription in topic.subscriptions.values():
            if may_expire(subscription):
                unused_s = now - subscription.cursor.properties.get(UNUSED_SINCE, int(now * 1000)) / 1000
                yield max(minutes * MINUTE_S - unused_s, 0.0)
    policy = topic.policies.inactive_topics
    if policy.deleteWhileInactive and _is_unneeded(topic):
        since = topic.ledger.properties.get(INACTIVE_SINCE)
        inactive_s = 0.0 if since is None else now - int(since) / 1000
        if not is_retained(topic, inactive_s):
            yield max(policy.maxInactiveDurationSeconds - inactive_s, 0.0)


def is_inactive(topic: Topic) -> bool:
    """Return whether nothing uses the topic, so that the mode of the policy allows its deletion."""
    is_held = topic.is_closing or topic.departures or topic.log.migration_fence.is_set
    return not is_held and _is_unneeded(topic)


def _is_unneeded(topic: Topic) -> bool:
    """Return whether a topic, which may be closing, has no client, no link, and no subscription that the mode keeps."""
    if topic.producers or topic.producers.access.waiting or topic.replicators:
        return False
    if topic.policies.inactive_topics.inactiveTopicDeleteMode == "delete_when_subscriptions_caught_up":
        return not any(each.is_in_use or not each.is_durable or each.backlog for each in topic.subscriptions.values())
    return not topic.subscriptions


def is_retained(topic: Topic, inactive_s: float) -> bool:
    """Return whether a topic that has been inactive for so long is within the time of its retention."""
    minutes = topic.policies.retention.retentionTimeInMinutes
    return minutes < 0 or inactive_s < minutes * MINUTE_S
