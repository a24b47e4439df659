"""A non-persistent topic: its producers, and subscriptions that exist while they have consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from magnetar.broker.loop.closing import close_one
from magnetar.broker.loop.under_way import UnderWay
from magnetar.broker.non_persistent.distribution import Distribution
from magnetar.broker.non_persistent.entrance import NonPersistentEntrance
from magnetar.broker.non_persistent.producers import NonPersistentProducers, not_replicated
from magnetar.broker.publish.arrivals import Arrivals
from magnetar.broker.resources.topic_rates import TopicRates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from magnetar.base.names import TopicName
    from magnetar.broker.dispatch.consumer import Counters
    from magnetar.broker.environment import Environment
    from magnetar.broker.loop.closing import Step
    from magnetar.broker.non_persistent.subscription import NonPersistentSubscription
    from magnetar.broker.publish.interfaces import SendHead
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class _NoLog:
    """Deduplication, delays and links of a topic that has none of them."""

    sequence_ids = None

    def __init__(self, name: TopicName) -> None:
        self._name = name

    def at_once(self, heads: Sequence[SendHead], entries: Sequence[bytes]) -> int:
        """Return the number of SENDs, since none is examined."""
        del heads
        return len(entries)

    def check(self, metadata: pb.MessageMetadata) -> None:
        """Accept any time of delivery: messages are delivered at once, as in Pulsar."""

    def to(self, target: str) -> Never:
        """Raise RequestError: there are no links."""
        del target
        raise not_replicated(self._name)


class NonPersistentTopic:
    """One topic. Used on the event loop's thread."""

    is_being_recorded = False
    """Nothing is recorded."""

    def __init__(self, environment: Environment, name: TopicName) -> None:
        """Create the topic, without clients."""
        self.environment = environment
        self.name = name
        self.is_closing = False
        """Whether arriving entries are dropped without an answer."""
        self.arrivals = Arrivals()
        self.rates = TopicRates(environment.tenant_rates.of(name.tenant))
        self.departures = UnderWay()
        self.subscriptions: dict[str, NonPersistentSubscription] = {}
        self._left: Counters = (0, 0, 0, 0)
        """Sums of the counters of earlier subscriptions."""
        self.distribution = Distribution(self)
        self.producers = NonPersistentProducers(self)
        self.entrance = NonPersistentEntrance(self)
        self.deduplication = self.delayed = self.replicators = _NoLog(name)
        self.apply_policies()

    @property
    def dropped(self) -> int:
        """Messages that were dropped for the present subscriptions and producers."""
        return sum(each.dropped for each in self.subscriptions.values())

    def counters_out(self) -> Counters:
        """Return the sums of ``Consumer.counters``, including those of consumers that have left."""
        present = [each.consumers.counters() for each in self.subscriptions.values()]
        messages, size, acked, redelivered = zip(self._left, *present, strict=True)
        return sum(messages), sum(size), sum(acked), sum(redelivered)

    def forget(self, subscription: NonPersistentSubscription) -> None:
        """Remove a subscription without consumers."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            messages, size, acked, redelivered = subscription.consumers.counters()
            left = self._left
            self._left = left[0] + messages, left[1] + size, left[2] + acked, left[3] + redelivered

    @property
    def is_unused(self) -> bool:
        """Whether the topic has no client, not even one that is leaving."""
        return not (self.producers or self.producers.access.waiting or self.subscriptions or self.departures)

    def notify(self) -> None:
        """Do nothing: no entry waits for a consumer."""

    def apply_policies(self) -> None:
        """Apply the current policies."""
        self.policies = self.environment.policies.of(self.name)
        self.rates.apply(self.policies, self.arrivals.rates.per_second, self.environment.clock.monotonic())

    def close(self) -> None:
        """Disconnect all clients, many in later turns; they look the topic up again."""
        self.is_closing = True
        self.distribution.close()
        loop, name = self.environment.loop, self.name
        self.environment.sliced.start(self, self._closing(), lambda step: close_one(loop, name, *step))

    def _closing(self) -> Iterator[Step]:
        yield from self.producers.closing()
        for subscription in tuple(self.subscriptions.values()):
            for consumer in subscription.detach_all():
                yield f"consumer {consumer.name}", consumer.close
