"""Simulated readers: each reads a topic from its first entry and acknowledges the entries that it has read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.position import EARLIEST, Position
from magnetar.sim.chunks import Assembler
from magnetar.sim.clients.client import Observer
from magnetar.sim.clients.subscriber import SimSubscriber
from magnetar.wire import commands
from magnetar.wire.entries.entry import parse_metadata
from magnetar.wire.message_id import message_id, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.sim.clients.client import ClientContext
    from magnetar.sim.site import Replica


class ReaderObserver(Observer, Protocol):
    """An observer of readers."""

    def read(self, reader: SimReader, position: Position, entry: bytes) -> None:
        """Record an entry that a reader read after ``reader.last``."""
        ...


class SimReader(SimSubscriber[ReaderObserver]):
    """A reader with a non-durable subscription, which resumes after the last entry read on each connection."""

    permits = 10

    def __init__(self, name: str, replica: Replica, context: ClientContext[ReaderObserver]) -> None:
        """Read ``replica`` from its first entry."""
        self.replica = replica
        self.last = EARLIEST
        """The last entry read."""
        self.assembler = Assembler()
        self._start = EARLIEST
        """The start position of the subscription. The broker sends this entry again; the reader skips it."""
        super().__init__(name, replica.cluster, context)

    def refuse(self) -> bool:
        """Request redelivery of all unacknowledged entries; return False if not connected."""
        if self.ready:
            self.say(commands.redeliver_unacknowledged_messages(consumer_id=self._consumer_id, message_ids=[]))
        return self.ready

    def start_over(self) -> bool:
        """Close the connection; return False if there is none."""
        if not self.ready:
            return False
        self.closed()
        self.disconnect()
        self.reconnect()
        return True

    def opened(self) -> None:
        """Subscribe."""
        self._consumer_id += 1
        self._start, self.ready, self._used = self.last, False, 0
        body = pb.CommandSubscribe(
            topic=str(self.topic),
            subscription=f"reader-{self.name}",
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=self._consumer_id,
            request_id=self._ask(),
            consumer_name=self.name,
            durable=False,
            start_message_id=message_id(self.last),
            initialPosition=pb.CommandSubscribe.Earliest if self.last == EARLIEST else pb.CommandSubscribe.Latest,
        )
        self.say(commands.subscribe(body))

    def closed(self) -> None:
        """Wait for the next connection."""
        self.ready = False

    def _receive(self, message: pb.CommandMessage, entry: bytes) -> None:
        position = position_of(message.message_id)
        self._use(max(1, parse_metadata(entry).num_messages_in_batch))
        if position <= max(self._start, self.last):
            return  # the start position, or an entry that was read before the redelivery
        self.observer.read(self, position, entry)
        self.last = position
        if self._chance.random() < 0.5:
            ids = [message_id(position)]
            self.say(commands.ack(consumer_id=self._consumer_id, message_ids=ids, cumulative=True))
