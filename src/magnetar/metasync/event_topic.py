"""The event topic, through the client of this cluster's own broker."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Self

from magnetar.wire.entries.entry import build_entry, payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from asyncio import Future

    from magnetar.base.position import Position
    from magnetar.base.world import Clock
    from magnetar.client.client import PulsarClient
    from magnetar.client.consumer import Consumer
    from magnetar.client.producer import Producer

SUBSCRIPTION = "metadata-syncer"
"""Name of the Failover subscription, as in PIP-136."""


READ_AHEAD = 50
"""Maximum number of events that are received before they are applied. One can have 1 MiB (EVENT_BYTES_MAX)."""


class ClientEventTopic:
    """See EventTopic. The name of the producer lets only one broker of a cluster publish."""

    def __init__(self, producer: Producer, consumer: Consumer, clock: Clock) -> None:
        """Use an open producer and consumer; call ``open`` instead."""
        self._producer = producer
        self._consumer = consumer
        self._clock = clock
        self._sequence_ids = itertools.count()

    @classmethod
    async def open(cls, client: PulsarClient, topic: str, clock: Clock) -> Self:
        """Create the producer, then the consumer; raises OSError or MagnetarError."""
        producer = await client.create_producer(topic, SUBSCRIPTION)
        consumer = await client.subscribe(
            topic,
            SUBSCRIPTION,
            kind=pb.CommandSubscribe.Failover,
            start=pb.CommandSubscribe.Earliest,
            read_ahead=READ_AHEAD,
        )
        return cls(producer, consumer, clock)

    def publish(self, event: bytes) -> Future[Position]:
        """See EventTopic."""
        metadata = pb.MessageMetadata(
            producer_name=self._producer.name,
            sequence_id=next(self._sequence_ids),
            publish_time=int(self._clock.now() * 1000),
        )
        return self._producer.send(build_entry(metadata, event))

    async def receive(self) -> tuple[Position, bytes]:
        """See EventTopic."""
        received = await self._consumer.receive()
        return received.position, bytes(payload_of(received.entry))

    def acknowledge(self, position: Position) -> None:
        """See EventTopic."""
        self._consumer.acknowledge(position)
