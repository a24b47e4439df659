"""Consumers: subscribing, acknowledging, redelivery, seeking, unsubscribing, and moving to other clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.names import TopicName
    from magnetar.sim.clients.consumer import SimConsumer

TOGETHER = 0.7
"""Probability that a Key_Shared consumer joins a cluster with others: keys can be mixed up only there."""

CONFIRMED = 0.6
"""The share of acknowledgements that request a receipt."""


class Consumers(ActionGroup):
    """See the module."""

    name = "consumers"

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("acknowledge", 30, self.acknowledge),
            Action("acknowledge a batch's member", 8, self.acknowledge_member),
            Action("acknowledge cumulatively", 6, self.acknowledge_through),
            Action("refuse", 5, self.refuse),
            Action("move a consumer", 4, self.move),
            Action("seek", 2, self.seek),
            Action("unsubscribe", 1, self.unsubscribe),
        )

    def begin(self) -> None:
        """Subscribe some consumers to each subscription."""
        for topic in self.simulation.scenario.topics:
            for subscription in self.simulation.scenario.subscriptions:
                for _ in range(self.chance.randint(1, 2) + (subscription == "keys")):
                    self.join(topic, subscription)

    def holding(self) -> SimConsumer | None:
        """Return a consumer with unacknowledged messages; None if there is none."""
        holding = [consumer for consumer in self.simulation.consumers if consumer.held]
        return self.chance.choice(holding) if holding else None

    def acknowledge(self) -> bool:
        """Acknowledge some whole entries."""
        consumer = self.holding()
        if consumer is None:
            return False
        held = list(consumer.held.values())
        chosen = self.chance.sample(held, self.chance.randint(1, min(4, len(held))))
        consumer.acknowledge(chosen, confirmed=self.chance.random() < CONFIRMED)
        return True

    def acknowledge_member(self) -> bool:
        """Acknowledge one message of a batch."""
        consumer = self.holding()
        batches = [held for held in consumer.held.values() if held.members > 1] if consumer is not None else []
        if consumer is None or not batches:
            return False
        held = self.chance.choice(batches)
        member = self.chance.choice([bit for bit in range(held.members) if held.remaining >> bit & 1])
        consumer.acknowledge_member(held, member, confirmed=self.chance.random() < CONFIRMED)
        return True

    def acknowledge_through(self) -> bool:
        """Acknowledge cumulatively."""
        consumer = self.holding()
        if consumer is None:
            return False
        held = self.chance.choice(list(consumer.held.values()))
        consumer.acknowledge_through(held, confirmed=self.chance.random() < CONFIRMED)
        return True

    def refuse(self) -> bool:
        """Request redelivery of some entries."""
        consumer = self.holding()
        if consumer is None:
            return False
        held = list(consumer.held.values())
        consumer.refuse(self.chance.sample(held, self.chance.randint(1, len(held))))
        return True

    def seek(self) -> bool:
        """Seek to an entry or to the beginning."""
        consumer = self.holding()
        if consumer is None:
            return False
        held = self.chance.choice(list(consumer.held.values()))
        consumer.seek(held.position if self.chance.random() < 0.7 else EARLIEST)
        return True

    def unsubscribe(self) -> bool:
        """Delete a subscription, which another consumer creates again."""
        consumer = self.holding()
        if consumer is not None:
            self.unsubscribe_with(consumer)
        return consumer is not None

    def unsubscribe_with(self, consumer: SimConsumer) -> None:
        """Delete the subscription of a consumer, which disconnects; another consumer subscribes."""
        self.simulation.consumers.remove(consumer)
        consumer.unsubscribe()
        self.join(consumer.topic, consumer.subscription)

    def move(self) -> bool:
        """Disconnect a consumer, and subscribe another one, maybe in another cluster."""
        consumer = self.chance.choice(self.simulation.consumers)
        self.simulation.note(consumer.machine, f"leaves {consumer.subscription}")
        self.simulation.consumers.remove(consumer)
        consumer.stop()
        self.join(consumer.topic, consumer.subscription)
        return True

    def join(self, topic: TopicName, subscription: str) -> None:
        """Subscribe a new consumer in a random cluster."""
        cluster = self.chance.choice(list(self.simulation.sites))
        here = [each for each in self.simulation.consumers if (each.topic, each.subscription) == (topic, subscription)]
        if subscription == "keys" and here and self.chance.random() < TOGETHER:
            cluster = self.chance.choice(here).cluster
        self.simulation.add_consumer(topic, subscription, cluster, earliest=self.chance.random() < 0.7)
