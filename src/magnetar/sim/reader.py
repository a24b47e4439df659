"""Readers of the simulation: each reads a topic from its first entry on, and acknowledges what it has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.sim.chunks import Assembler
from magnetar.sim.client import SimClient
from magnetar.wire import commands
from magnetar.wire.entry import parse_metadata
from magnetar.wire.message_id import message_id, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.sim.client import Surroundings
    from magnetar.sim.replica import Replica
    from magnetar.wire.frame import Frame

PERMITS = 10
"""Messages that a reader asks for in advance."""


class SimReader(SimClient):
    """A subscription that is not durable. With each connection it goes on behind the last entry that it has read."""

    def __init__(self, name: str, replica: Replica, surroundings: Surroundings) -> None:
        """Read from the first entry of ``replica`` on."""
        self.replica = replica
        self.last = EARLIEST
        """The last entry that it has read."""
        self.assembler = Assembler()
        self._consumer_id = 0
        self._ready = False
        self._start = EARLIEST
        """The entry that the broker was asked to begin with; it comes again, and is not read again."""
        self._used = 0
        super().__init__(name, replica.cluster, surroundings)

    def refuse(self) -> bool:
        """Ask for everything again that is not acknowledged; False: it is not connected."""
        if self._ready:
            self.say(commands.redeliver_unacknowledged_messages(consumer_id=self._consumer_id, message_ids=[]))
        return self._ready

    def start_over(self) -> bool:
        """Lose the connection; False: there is none."""
        if not self._ready:
            return False
        self.closed()
        self.disconnect()
        self.again(self.connect)
        return True

    def opened(self) -> None:
        """Subscribe."""
        self._consumer_id += 1
        self._start, self._ready, self._used = self.last, False, 0
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
        self._ready = False

    def take(self, frame: Frame) -> None:
        """Read messages, subscribe again when told to."""
        command = frame.command
        match command.type:
            case pb.BaseCommand.SUCCESS if not self._ready and not self.stopped:
                self._ready = True
                self._flow(PERMITS)
            case pb.BaseCommand.MESSAGE if command.message.consumer_id == self._consumer_id:
                self._receive(position_of(command.message.message_id), frame.body)
            case pb.BaseCommand.ERROR if not self._ready:
                self.again(self._reopen)
            case pb.BaseCommand.CLOSE_CONSUMER if command.close_consumer.consumer_id == self._consumer_id:
                self.closed()
                self.again(self._reopen)
            case _:
                pass

    def _reopen(self) -> None:
        if self.peer is not None and not self._ready and not self.stopped:
            self.opened()

    def _receive(self, position: Position, entry: bytes) -> None:
        self._used += max(1, parse_metadata(entry).num_messages_in_batch)
        if self._used >= PERMITS // 2:
            self._flow(self._used)
            self._used = 0
        if position <= max(self._start, self.last):
            return  # the start, or what it had read before it asked for everything again
        self.witness.read(self, position, entry)
        self.last = position
        if self._chance.random() < 0.5:
            ids = [message_id(position)]
            self.say(commands.ack(consumer_id=self._consumer_id, message_ids=ids, cumulative=True))

    def _flow(self, permits: int) -> None:
        self.say(commands.flow(consumer_id=self._consumer_id, message_permits=permits))
