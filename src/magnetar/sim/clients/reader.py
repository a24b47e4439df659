"""Readers of the simulation: each reads a topic from its first entry on, and acknowledges what it has read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.position import EARLIEST, Position
from magnetar.sim.chunks import Assembler
from magnetar.sim.clients.client import Witness
from magnetar.sim.clients.subscriber import SimSubscriber
from magnetar.wire import commands
from magnetar.wire.entries.entry import parse_metadata
from magnetar.wire.message_id import message_id, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.sim.clients.client import ClientContext
    from magnetar.sim.site import Replica


class ReaderWitness(Witness, Protocol):
    """Who is told what readers learn."""

    def read(self, reader: SimReader, position: Position, entry: bytes) -> None:
        """A reader reads an entry, behind ``reader.last``."""
        ...


class SimReader(SimSubscriber[ReaderWitness]):
    """A subscription that is not durable. With each connection it goes on behind the last entry that it has read."""

    permits = 10

    def __init__(self, name: str, replica: Replica, context: ClientContext[ReaderWitness]) -> None:
        """Read from the first entry of ``replica`` on."""
        self.replica = replica
        self.last = EARLIEST
        """The last entry that it has read."""
        self.assembler = Assembler()
        self._start = EARLIEST
        """The entry that the broker was asked to begin with; it comes again, and is not read again."""
        super().__init__(name, replica.cluster, context)

    def refuse(self) -> bool:
        """Ask for everything again that is not acknowledged; False: it is not connected."""
        if self.ready:
            self.say(commands.redeliver_unacknowledged_messages(consumer_id=self._consumer_id, message_ids=[]))
        return self.ready

    def start_over(self) -> bool:
        """Lose the connection; False: there is none."""
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
            request_id=self.request_id(),
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
            return  # the start, or what it had read before it asked for everything again
        self.witness.read(self, position, entry)
        self.last = position
        if self._chance.random() < 0.5:
            ids = [message_id(position)]
            self.say(commands.ack(consumer_id=self._consumer_id, message_ids=ids, cumulative=True))
