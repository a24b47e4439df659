"""Backlog quotas of one topic: how much may be left unacknowledged, and what happens beyond it.

What counts is the slowest durable cursor, links to other clusters included. Producers are held off or refused, the
links' too: what is not taken here stays in the log of its origin. Eviction acknowledges for subscriptions only: what
another cluster has not got yet is never given up, and a link that is the slowest is named in the log instead.
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
    from magnetar.metadata.policies import BacklogQuota, BacklogQuotaType

log = structlog.get_logger(__name__)

_EVICT_TO = 0.9
"""Share of a limit in bytes that eviction goes down to, so that it is not at work all the time."""

_REFUSALS = {
    "producer_request_hold": ServerError.ProducerBlockedQuotaExceededError,
    "producer_exception": ServerError.ProducerBlockedQuotaExceededException,
}

_LIMITS = {"destination_storage": Limit.BACKLOG_SIZE, "message_age": Limit.BACKLOG_AGE}


class QuotaTopic(TopicWithSubscriptions, Protocol):
    """The topic whose backlog is bounded."""

    @property
    def producers(self) -> TopicProducers:
        """The connected producers."""
        ...

    @property
    def replicators(self) -> Mapping[str, Replicator]:
        """The links, by the other cluster."""
        ...

    def each_subscription(self) -> Iterator[Subscription]:
        """Yield the subscriptions that are there now; one that goes away meanwhile is left out."""
        ...

    def consumer_cursors(self) -> list[Cursor]:
        """The durable cursors of subscriptions and links."""
        ...

    def consumed_through(self, cursors: list[Cursor]) -> Position:
        """All of ``cursors`` have acknowledged everything up to and including it."""
        ...


class BacklogQuotas:
    """Looked at when a producer comes, and from time to time."""

    def __init__(self, topic: QuotaTopic) -> None:
        """Of ``topic``, whose policies say the limits."""
        self._topic = topic

    @property
    def oldest_age_s(self) -> float:
        """Seconds for which the oldest unacknowledged message has been in this cluster's log.

        -1 where nothing is unacknowledged, and where it was not recorded: before a crash of the broker.
        """
        ledger, oldest = self._topic.ledger, self._oldest
        return ledger.age_of(oldest) if oldest is not None and ledger.has_recorded(oldest) else -1.0

    @property
    def slowest(self) -> Position:
        """Everything up to and including it is acknowledged by all who consume."""
        return self._topic.consumed_through(self._topic.consumer_cursors())

    @property
    def size(self) -> int:
        """Bytes that the slowest cursor has before it."""
        return self._topic.ledger.size_after(self.slowest)

    def check_producer(self) -> None:
        """Raise RequestError if a quota that holds producers off is exceeded."""
        for kind, quota in self._topic.policies.backlog_quotas.items():
            if quota.policy in _REFUSALS and self._is_exceeded(kind, quota):
                message = f"Cannot create producer on topic with backlog quota exceeded: {self._describe(kind, quota)}"
                raise RequestError(_REFUSALS[quota.policy], message, _LIMITS[kind])

    def enforcement(self, now: float, *, by_age: bool) -> Iterator[None]:
        """Act on what is exceeded at ``now``, seconds since the epoch, in steps; unless ``by_age``, not on ages.

        Something that is evicted, or producers that are sent away, are a hit of the limit.
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
        """The oldest entry that somebody has not acknowledged."""
        ledger = self._topic.ledger
        oldest = ledger.next_position(self.slowest)
        return oldest if oldest <= ledger.last_confirmed_entry else None

    @property
    def _oldest_age_at_least(self) -> float:
        oldest = self._oldest
        return self._topic.ledger.age_of(oldest) if oldest is not None else 0.0

    def _eviction(self, kind: BacklogQuotaType, quota: BacklogQuota, now: float) -> Iterator[None]:
        topic = self._topic
        if kind == "destination_storage":
            through = topic.ledger.position_before_last(int(quota.limitSize * _EVICT_TO))
            # The positions of entries that are not durable are given again if their write fails.
            through = min(through, topic.ledger.last_confirmed_entry)
        else:  # of the messages' age nothing is given up in advance: none that is younger than the limit goes
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
