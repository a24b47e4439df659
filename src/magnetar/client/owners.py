"""The owners of a connection's producers, consumers and watch, which get their commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import LinkRestsError, RequestError, ServerError
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.wire.frame import Frame


_REPORTS = frozenset({pb.BaseCommand.LINKS_CHANGED, pb.BaseCommand.LINKS_DUE, pb.BaseCommand.TOPICS_LOST})
"""Commands that a broker sends unasked after WATCH_LINKS, CARRY_LINKS and WATCH_LOSSES."""


class ProducerEvents(Protocol):
    """Events for the owner of a producer."""

    def receipted(self, receipt: pb.CommandSendReceipt) -> None:
        """Handle that the broker stored an entry."""
        ...

    def refused(self, error: pb.CommandSendError) -> None:
        """Handle that the broker rejected an entry."""
        ...

    def ended(self, failure: Exception) -> None:
        """Handle that the broker closed the producer (RequestError), or the end of the connection. The last event."""
        ...


class ConsumerEvents(Protocol):
    """Events for the owner of a consumer."""

    def received(self, message: pb.CommandMessage, entry: bytes) -> None:
        """Handle an entry."""
        ...

    def ended(self, failure: Exception) -> None:
        """Handle that the broker closed the consumer (RequestError), or the end of the connection. The last event."""
        ...


class Owners:
    """The producers and consumers of one connection, by number, and the owners of its reports about links."""

    __slots__ = ("consumers", "producers", "reports")

    def __init__(self) -> None:
        """Create it without producers, consumers and owners of reports."""
        self.producers: dict[int, ProducerEvents] = {}
        self.consumers: dict[int, ConsumerEvents] = {}
        self.reports: dict[pb.BaseCommand.Type.ValueType, Callable[[pb.BaseCommand], None]] = {}
        """By type of report, such as LINKS_CHANGED."""

    def take(self, frame: Frame) -> bool:
        """Pass a command to its owner, if it is for one; such commands without an owner are dropped."""
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
            failure = LinkRestsError if command.close_consumer.rests else RequestError
            closed = failure(ServerError.ServiceNotReady, "the broker closed the consumer")
            self.end_consumer(command.close_consumer.consumer_id, closed)
        else:
            return self._take_report(command)
        return True

    def _take_report(self, command: pb.BaseCommand) -> bool:
        """Pass a report about links to its owner."""
        if command.type not in _REPORTS:
            return False
        if (owner := self.reports.get(command.type)) is not None:
            owner(command)
        return True

    def end_producer(self, number: int, failure: Exception) -> None:
        """Call ``ended`` of a producer's owner, if there is one."""
        if (producer := self.producers.pop(number, None)) is not None:
            producer.ended(failure)

    def end_consumer(self, number: int, failure: Exception) -> None:
        """Call ``ended`` of a consumer's owner, if there is one."""
        if (consumer := self.consumers.pop(number, None)) is not None:
            consumer.ended(failure)

    def end_all(self, failure: Exception) -> None:
        """Call ``ended`` of all owners."""
        for number in list(self.producers):
            self.end_producer(number, failure)
        for number in list(self.consumers):
            self.end_consumer(number, failure)
