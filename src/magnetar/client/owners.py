"""The owners of a connection's producers and consumers: which command is for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.wire.frame import Frame


class ProducerEvents(Protocol):
    """What a connection tells the owner of a producer."""

    def receipted(self, receipt: pb.CommandSendReceipt) -> None:
        """The broker has taken an entry."""
        ...

    def refused(self, error: pb.CommandSendError) -> None:
        """The broker has refused an entry."""
        ...

    def ended(self, failure: Exception) -> None:
        """The broker closed the producer (RequestError), or the connection is lost. Nothing more follows."""
        ...


class ConsumerEvents(Protocol):
    """What a connection tells the owner of a consumer."""

    def received(self, message: pb.CommandMessage, entry: bytes) -> None:
        """An entry came."""
        ...

    def ended(self, failure: Exception) -> None:
        """The broker closed the consumer (RequestError), or the connection is lost. Nothing more follows."""
        ...


class Owners:
    """Producers and consumers of one connection, by their numbers."""

    __slots__ = ("consumers", "producers")

    def __init__(self) -> None:
        """Begin without any."""
        self.producers: dict[int, ProducerEvents] = {}
        self.consumers: dict[int, ConsumerEvents] = {}

    def take(self, frame: Frame) -> bool:
        """Give a command to its owner, if it is for producers or consumers; those of nobody are dropped."""
        command = frame.command
        kind = command.type
        if kind == pb.BaseCommand.MESSAGE:
            if (consumer := self.consumers.get(command.message.consumer_id)) is not None:
                consumer.received(command.message, frame.body)
        elif kind == pb.BaseCommand.SEND_RECEIPT:
            if (producer := self.producers.get(command.send_receipt.producer_id)) is not None:
                producer.receipted(command.send_receipt)
        elif kind == pb.BaseCommand.SEND_ERROR:
            if (producer := self.producers.get(command.send_error.producer_id)) is not None:
                producer.refused(command.send_error)
        elif kind == pb.BaseCommand.CLOSE_PRODUCER:
            closed = RequestError(ServerError.ServiceNotReady, "the broker closed the producer")
            self.end_producer(command.close_producer.producer_id, closed)
        elif kind == pb.BaseCommand.CLOSE_CONSUMER:
            closed = RequestError(ServerError.ServiceNotReady, "the broker closed the consumer")
            self.end_consumer(command.close_consumer.consumer_id, closed)
        else:
            return False
        return True

    def end_producer(self, number: int, failure: Exception) -> None:
        """Tell the owner of a producer, if there is one, that it has ended."""
        if (producer := self.producers.pop(number, None)) is not None:
            producer.ended(failure)

    def end_consumer(self, number: int, failure: Exception) -> None:
        """Tell the owner of a consumer, if there is one, that it has ended."""
        if (consumer := self.consumers.pop(number, None)) is not None:
            consumer.ended(failure)

    def end_all(self, failure: Exception) -> None:
        """Tell every owner that the connection has ended."""
        for number in list(self.producers):
            self.end_producer(number, failure)
        for number in list(self.consumers):
            self.end_consumer(number, failure)
