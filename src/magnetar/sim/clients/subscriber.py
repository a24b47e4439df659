"""The base class of simulated consumers and readers: a consumer that is recreated after each close by the broker."""

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
    """Number of messages that the consumer requests in advance."""

    def __init__(self, name: str, cluster: str, context: ClientContext[W]) -> None:
        """Connect to ``cluster``."""
        self.ready = False
        """Whether the broker has accepted the subscription."""
        self._consumer_id = 0
        self._asked = 0
        """Request id of the newest SUBSCRIBE."""
        self._used = 0
        super().__init__(name, cluster, context)

    def take(self, frame: Frame) -> None:
        """Handle messages, and subscribe again after CLOSE_CONSUMER."""
        command = frame.command
        match command.type:
            case pb.BaseCommand.SUCCESS if command.success.request_id == self._asked and not self.stopped:
                self.ready = True
                self._flow(self.permits)
            case pb.BaseCommand.MESSAGE if command.message.consumer_id == self._consumer_id:
                self._receive(command.message, frame.body)
            case pb.BaseCommand.ERROR if command.error.request_id == self._asked:
                self.again(self._reopen)
            case pb.BaseCommand.CLOSE_CONSUMER if command.close_consumer.consumer_id == self._consumer_id:
                self.closed()
                self.again(self._reopen)
            case _:
                pass

    def _ask(self) -> int:
        """Return the request id for SUBSCRIBE."""
        self._asked = self.request_id()
        return self._asked

    def _receive(self, message: pb.CommandMessage, entry: bytes) -> None:
        """Handle an entry."""
        raise NotImplementedError

    def _reopen(self) -> None:
        if not self.ready and not self.stopped:
            self.opened()

    def _use(self, messages: int) -> None:
        """Count received messages, and send permits when half of them are used."""
        self._used += messages
        if self._used >= self.permits // 2:
            self._flow(self._used)
            self._used = 0

    def _flow(self, permits: int) -> None:
        self.say(commands.flow(consumer_id=self._consumer_id, message_permits=permits))
