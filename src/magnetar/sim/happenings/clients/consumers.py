"""Consumers: they come, acknowledge, refuse, seek, unsubscribe, and move to other clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST
from magnetar.sim.world import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.names import TopicName
    from magnetar.sim.clients.consumer import SimConsumer

TOGETHER = 0.7
"""How often a consumer that has keys of its own comes where others have theirs: only there can they be mixed up."""

CONFIRMED = 0.6
"""The share of acknowledgements that ask for a receipt."""


class Consumers(Happening):
    """See the module."""

    name = "consumers"

    def actions(self) -> Iterable[Action]:
        """See Happening."""
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
        """Some consumers come to each subscription."""
        for topic in self.world.scenario.topics:
            for subscription in self.world.scenario.subscriptions:
                for _ in range(self.chance.randint(1, 2) + (subscription == "keys")):
                    self.join(topic, subscription)

    def holding(self) -> SimConsumer | None:
        """Some consumer that holds messages; None if there is none."""
        holding = [consumer for consumer in self.world.consumers if consumer.held]
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
        """Acknowledge everything up to an entry."""
        consumer = self.holding()
        if consumer is None:
            return False
        held = self.chance.choice(list(consumer.held.values()))
        consumer.acknowledge_through(held, confirmed=self.chance.random() < CONFIRMED)
        return True

    def refuse(self) -> bool:
        """Want some entries again."""
        consumer = self.holding()
        if consumer is None:
            return False
        held = list(consumer.held.values())
        consumer.refuse(self.chance.sample(held, self.chance.randint(1, len(held))))
        return True

    def seek(self) -> bool:
        """Go to an entry, or to the beginning."""
        consumer = self.holding()
        if consumer is None:
            return False
        held = self.chance.choice(list(consumer.held.values()))
        consumer.seek(held.position if self.chance.random() < 0.7 else EARLIEST)
        return True

    def unsubscribe(self) -> bool:
        """Delete a subscription; somebody creates it again."""
        consumer = self.holding()
        if consumer is not None:
            self.unsubscribe_with(consumer)
        return consumer is not None

    def unsubscribe_with(self, consumer: SimConsumer) -> None:
        """Delete the subscription of a consumer, which leaves; another one comes."""
        self.world.consumers.remove(consumer)
        consumer.unsubscribe()
        self.join(consumer.topic, consumer.subscription)

    def move(self) -> bool:
        """Let a consumer leave, and another one come, maybe in another cluster."""
        consumer = self.chance.choice(self.world.consumers)
        self.world.note(consumer.machine, f"leaves {consumer.subscription}")
        self.world.consumers.remove(consumer)
        consumer.stop()
        self.join(consumer.topic, consumer.subscription)
        return True

    def join(self, topic: TopicName, subscription: str) -> None:
        """Let a consumer come, to any cluster."""
        cluster = self.chance.choice(list(self.world.sites))
        here = [each for each in self.world.consumers if (each.topic, each.subscription) == (topic, subscription)]
        if subscription == "keys" and here and self.chance.random() < TOGETHER:
            cluster = self.chance.choice(here).cluster
        self.world.add_consumer(topic, subscription, cluster, earliest=self.chance.random() < 0.7)
