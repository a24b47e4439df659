"""Detection of unused topics, and the time at which an unused topic needs maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.broker.topic.topic import Topic

_MINUTE_S = 60


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
    ledger, policies = topic.ledger, topic.policies
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
        yield max(retained_min * _MINUTE_S - closed_for_s, 0.0)
