"""Backlog quotas of one topic: limits of the backlog, and actions when they are exceeded.

The backlog is that of the slowest durable cursor, including those of links. Producers are held back or refused, also
those of links, whose entries stay in the log of their origin. Eviction acknowledges entries in subscriptions only,
never entries that another cluster has not received yet; if a link is the slowest, it is named in the log instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.broker.replication.interfaces import TopicWithSubscriptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.base.position import Position
    from magnetar.broker.replication.outbound.replicator import Replicator
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.producers import TopicProducers
    from magnetar.cursor.cursor import Cursor
    from magnetar.metadata.policy.values import BacklogQuota, BacklogQuotaType

log = structlog.get_logger(__name__)

_EVICT_TO = 0.9
"""Share of a limit in bytes to which eviction reduces the backlog, so that it does not run permanently."""

_REFUSALS = {
    "producer_request_hold": ServerError.ProducerBlockedQuotaExceededError,
    "producer_exception": ServerError.ProducerBlockedQuotaExceededException,
}

_LIMITS = {"destination_storage": Limit.BACKLOG_SIZE, "message_age": Limit.BACKLOG_AGE}


class QuotaTopic(TopicWithSubscriptions, Protocol):
    """The topic with the quota."""

    @property
    def producers(self) -> TopicProducers:
        """The connected producers."""
        ...

    @property
    def replicators(self) -> Mapping[str, Replicator]:
        """The links, by target cluster."""
        ...

    def each_subscription(self) -> Iterator[Subscription]:
        """Yield the present subscriptions; those that are deleted meanwhile are omitted."""
        ...

    def consumer_cursors(self) -> list[Cursor]:
        """Return the durable cursors of subscriptions and links."""
        ...

    def consumed_through(self, cursors: list[Cursor]) -> Position:
        """Return the position up to which, inclusive, all ``cursors`` have acknowledged all entries."""
        ...


class BacklogQuotas:
    """Quotas of a topic, checked periodically and when a producer connects."""

    def __init__(self, topic: QuotaTopic) -> None:
        """Create the quotas of ``topic``, whose policies contain the limits."""
        self._topic = topic

    @property
    def oldest_age_s(self) -> float:
        """Age of the oldest unacknowledged message in seconds, since this cluster stored it.

        -1 if all messages are acknowledged, or if the time was not recorded before a crash of the broker.
        """
        ledger, oldest = self._topic.ledger, self._oldest
        return ledger.age_of(oldest) if oldest is not None and ledger.has_recorded(oldest) else -1.0

    @property
    def slowest(self) -> Position:
        """Position up to which, inclusive, all subscriptions and links have acknowledged all entries."""
        return self._topic.consumed_through(self._topic.consumer_cursors())

    @property
    def size(self) -> int:
        """Bytes after the slowest cursor."""
        return self._topic.ledger.size_after(self.slowest)

    def check_producer(self) -> None:
        """Raise RequestError if a quota that refuses producers is exceeded."""
        for kind, quota in self._topic.policies.backlog_quotas.items():
            if quota.policy in _REFUSALS and self._is_exceeded(kind, quota):
                message = f"Cannot create producer on topic with backlog quota exceeded: {self._describe(kind, quota)}"
                raise RequestError(_REFUSALS[quota.policy], message, _LIMITS[kind])

    def enforcement(self, now: float, *, by_age: bool) -> Iterator[None]:
        """Apply the exceeded quotas at ``now``, in seconds since the epoch, in steps; quotas of age only if ``by_age``.

        An eviction, or the disconnection of producers, counts as a hit of the limit.
        """
        for kind, quota in self._topic.policies.backlog_quotas.items():
            if not self._is_exceeded(kind, quota) or (kind == "message_age" and not by_age):
                continue
            log.warning("backlog_quota_exceeded", topic=str(self._topic.name), quota=self._describe(kind, quota))
            if quota.policy == "consumer_backlog_eviction":
                yield from self._eviction(kind, quota, now)
                continue
            if self._topic.producers:
                self._topic.environment.limit_hits.hit(_LIMITS[kind])
            self._topic.producers.dismiss()

    def _is_exceeded(self, kind: BacklogQuotaType, quota: BacklogQuota) -> bool:
        if kind == "destination_storage":
            return quota.limitSize >= 0 and 0 < self.size >= quota.limitSize
        return 0 < quota.limitTime <= self._oldest_age_at_least

    def _describe(self, kind: BacklogQuotaType, quota: BacklogQuota) -> str:
        if kind == "destination_storage":
            return f"{self.size} of {quota.limitSize} bytes are unacknowledged ({kind}, {quota.policy})"
        age_s = self._oldest_age_at_least
        return f"a message is {age_s:.0f} s old, allowed are {quota.limitTime} s ({kind}, {quota.policy})"

    @property
    def _oldest(self) -> Position | None:
        """Oldest entry that a subscription or link has not acknowledged."""
        ledger, slowest = self._topic.ledger, self.slowest
        if slowest >= ledger.last_confirmed_entry:
            return None
        oldest = ledger.next_position(slowest)
        return oldest if oldest <= ledger.last_confirmed_entry else None

    @property
    def _oldest_age_at_least(self) -> float:
        oldest = self._oldest
        return self._topic.ledger.age_of(oldest) if oldest is not None else 0.0

    def _eviction(self, kind: BacklogQuotaType, quota: BacklogQuota, now: float) -> Iterator[None]:
        topic = self._topic
        if kind == "destination_storage":
            through = topic.ledger.position_before_last(int(quota.limitSize * _EVICT_TO))
            # Entries that are not durable are not evicted: if their write fails, their positions are given to others.
            through = min(through, topic.ledger.last_confirmed_entry)
        else:  # by age, only messages that exceed the limit are evicted
            through = topic.ledger.position_older_than(quota.limitTime, inclusive=True)
        is_hit = False
        for subscription in topic.each_subscription():
            evicted = subscription.expire_through(through, now)
            if evicted:
                is_hit = True
                log.warning(
                    "backlog_evicted",
                    topic=str(topic.name),
                    subscription=subscription.name,
                    entries=evicted,
                    through=str(through),
                )
            yield
        if is_hit:
            topic.environment.limit_hits.hit(_LIMITS[kind])
        for replicator in topic.replicators.values():
            if replicator.cursor.state.mark_delete_position < through:
                log.warning("backlog_kept_for_link", topic=str(topic.name), target=replicator.target)
