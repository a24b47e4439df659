"""What the simulation's consumers and readers share: a consumer that is made again whenever the broker closes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from magnetar.sim.clients.client import SimClient, W
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.sim.clients.client import ClientContext
    from magnetar.wire.frame import Frame


class SimSubscriber(SimClient[W]):
    """A client with one consumer at a time. ``opened`` subscribes with a new id."""

    permits: ClassVar[int]
    """Messages that it asks for in advance."""

    def __init__(self, name: str, cluster: str, context: ClientContext[W]) -> None:
        """Connect to ``cluster``."""
        self.ready = False
        """Whether the broker has accepted the subscription."""
        self._consumer_id = 0
        self._used = 0
        super().__init__(name, cluster, context)

    def take(self, frame: Frame) -> None:
        """Take messages, subscribe again when told to."""
        command = frame.command
        match command.type:
            case pb.BaseCommand.SUCCESS if not self.ready and not self.stopped:
                self.ready = True
                self._flow(self.permits)
            case pb.BaseCommand.MESSAGE if command.message.consumer_id == self._consumer_id:
                self._receive(command.message, frame.body)
            case pb.BaseCommand.ERROR if not self.ready:
                self.again(self._reopen)
            case pb.BaseCommand.CLOSE_CONSUMER if command.close_consumer.consumer_id == self._consumer_id:
                self.closed()
                self.again(self._reopen)
            case _:
                pass

    def _receive(self, message: pb.CommandMessage, entry: bytes) -> None:
        """Take an entry."""
        raise NotImplementedError

    def _reopen(self) -> None:
        if self.peer is not None and not self.ready and not self.stopped:
            self.opened()

    def _use(self, messages: int) -> None:
        """Count messages that came, and ask for as many again when half of those asked for have come."""
        self._used += messages
        if self._used >= self.permits // 2:
            self._flow(self._used)
            self._used = 0

    def _flow(self, permits: int) -> None:
        self.say(commands.flow(consumer_id=self._consumer_id, message_permits=permits))
