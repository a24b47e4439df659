"""Producers: publishing, with batches and delayed messages, resending entries without a receipt, and moving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.content import Draft
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.clients.producer import SimProducer

KEYS = ("", "a", "b", "c")
"""Keys of messages; empty: no key."""

DELAY_MS = (1, 3000)
"""Bounds of a message's delay, inclusive."""


class Producers(ActionGroup):
    """See the module."""

    name = "producers"
    counted = (
        "batch published",
        "compressed message published",
        "chunked message published",
        "delayed message published",
        "message published to chosen clusters",
        "producer moved with messages that have no receipt",
    )

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("publish", 24, self.publish),
            Action("send again", 2, self.send_again),
            Action("move a producer", 2, self.move),
        )

    def begin(self) -> None:
        """Create producers for each topic, and publish some messages."""
        topics = self.simulation.scenario.topics
        for topic in topics:
            for _ in range(self.chance.randint(1, 3 if len(topics) == 1 else 2)):
                self.simulation.add_producer(topic)
        for _ in range(self.chance.randint(0, 3)):
            self.publish()
        self.simulation.run(1.0)

    def publish(self) -> bool:
        """Publish some entries with one producer."""
        producer = self.chance.choice(self.simulation.producers)
        for _ in range(self.chance.choice((1, 1, 2, 5))):
            self.publish_one(producer)
        return True

    def publish_one(self, producer: SimProducer, padding: int = 0, only_to: str = "") -> None:
        """Publish an entry with the clock of the producer's cluster, with ``padding`` more bytes.

        ``only_to`` is the only other cluster that gets it.
        """
        now_ms = int(self.simulation.sites[producer.cluster].clock.now() * 1000)
        members = self.chance.choice((1, 1, 1, 2, 3))
        chunks = self.chance.randint(2, 3) if members == 1 and self.chance.random() < 0.1 else 1
        deliver_at_ms = now_ms + self.chance.randint(*DELAY_MS) if chunks == 1 and self.chance.random() < 0.1 else 0
        others = [cluster for cluster in self.simulation.sites if cluster != producer.cluster]
        is_chosen = self.simulation.scenario.replicate_to and self.chance.random() < 0.2
        chosen = self.chance.sample(others, self.chance.randint(1, len(others))) if is_chosen else ()
        chosen = [only_to] if only_to else chosen
        draft = Draft(
            publish_time_ms=now_ms,
            members=members,
            is_batch=chunks == 1 and self.chance.random() < 0.2,
            is_compressed=chunks == 1 and self.chance.random() < 0.3,
            names_highest=self.chance.random() < 0.7,
            chunks=chunks,
            deliver_at_ms=deliver_at_ms,
            key=self.chance.choice(KEYS),
            replicate_to=chosen,
            padding=padding,
        )
        text = producer.publish(draft)
        self.simulation.count("message published to chosen clusters", is_chosen)
        self.simulation.note(producer.machine, f"publishes {text}", producer.cluster)
        self.simulation.count("batch published", members > 1)
        self.simulation.count("compressed message published", draft.is_compressed)
        self.simulation.count("chunked message published", chunks > 1)
        self.simulation.count("delayed message published", deliver_at_ms > 0)

    def send_again(self) -> bool:
        """Resend the entries of a producer that have no receipt."""
        producer = self.chance.choice(self.simulation.producers)
        self.simulation.note(producer.machine, "sends again what has no receipt")
        return producer.send_again()

    def move(self) -> bool:
        """Move a producer to another cluster with its entries without a receipt and some receipted ones."""
        producer = self.chance.choice(self.simulation.producers)
        others = [cluster for cluster in self.simulation.sites if cluster != producer.cluster]
        self.simulation.count("producer moved with messages that have no receipt", bool(producer.pending))
        self.simulation.note(producer.machine, f"moves with {len(producer.pending)} entries that have no receipt")
        producer.move(self.chance.choice(others))
        return True
