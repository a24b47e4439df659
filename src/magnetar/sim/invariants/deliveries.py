"""Deliveries: in the liveness phase, connected consumers get each message that is due and not acknowledged.

Without this check, new consumers would get messages that the broker has forgotten to send to those before.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from magnetar.sim.scenario import SHARING
from magnetar.sim.simulation import Invariant
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from magnetar.base.position import Position
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.sim.clients.consumer import SimConsumer
    from magnetar.sim.site import Replica


class Deliveries(Invariant):
    """See the module."""

    def missing(self) -> str:
        """See Invariant."""
        for replica, subscription, consumers in self._consumed():
            received = {position for consumer in consumers for position in consumer.received}
            entry = next((each for each in self._due(replica, subscription) if each not in received), None)
            if entry is not None:
                where = f"{subscription.name} of {replica.name.local_name} in {replica.cluster}"
                return f"{where} has not sent {entry} to {', '.join(consumer.name for consumer in consumers)}"
        return ""

    def _consumed(self) -> Iterator[tuple[Replica, Subscription, Sequence[SimConsumer]]]:
        """Yield the subscriptions with connected consumers, unless acknowledgements are awaited.

        A key of a Key_Shared subscription may have to wait for the acknowledgements of another consumer.
        """
        groups: defaultdict[tuple[object, str, str], list[SimConsumer]] = defaultdict(list)
        for consumer in self.simulation.consumers:
            if consumer.ready and not consumer.stopped:
                groups[consumer.topic, consumer.cluster, consumer.subscription].append(consumer)
        for replica in self.simulation.loaded():
            assert replica.topic is not None
            for name, subscription in replica.topic.subscriptions.items():
                consumers = groups.get((replica.name, replica.cluster, name), [])
                waits_for_others = subscription.consumers.type == pb.CommandSubscribe.Key_Shared and len(consumers) > 1
                if consumers and not subscription.unread.is_paused and not waits_for_others:
                    yield replica, subscription, consumers

    def _due(self, replica: Replica, subscription: Subscription) -> Iterator[Position]:
        """Yield the entries that consumers should have."""
        first, now_ms = subscription.topic.ledger.first_position, replica.site.clock.now() * 1000
        is_sharing = subscription.consumers.type in SHARING
        for position, entry in self.simulation.checks.topics[replica.name].model.logs[replica.cluster].entries:
            if position < first or subscription.unread.is_finished(position):
                continue
            if not (is_sharing and entry.deliver_at_ms > now_ms):
                yield position
