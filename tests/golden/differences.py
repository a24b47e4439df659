"""The allowed differences between Apache Pulsar's output and Magnetar's, with reasons; everything else must be equal.

Three tables: fields with values that each broker chooses, commands with a variable order, and commands that only
Magnetar sends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from google.protobuf.descriptor import FieldDescriptor

from magnetar.wire.commands import UNSOLICITED
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from google.protobuf.message import Message

Value = Any
"""The value of a field, of any type."""

SPECIAL_LEDGERS = frozenset({2**64 - 1, 2**63 - 1})
"""Ledger ids of the earliest and the latest message id, equal for all brokers."""

BEFORE_FIRST = 2**64 - 1
"""The entry id before a ledger's first entry."""

NO_SEQUENCE_ID = (0, 2**64 - 1)


@dataclass
class Pairs:
    """A one-to-one mapping between recorded values and current ones."""

    now_by_recorded: dict[Value, Value] = field(default_factory=dict)
    recorded_by_now: dict[Value, Value] = field(default_factory=dict)

    def match(self, recorded: Value, now: Value) -> bool:
        """Return whether the two correspond; two new values are paired."""
        if recorded not in self.now_by_recorded and now not in self.recorded_by_now:
            self.now_by_recorded[recorded] = now
            self.recorded_by_now[now] = recorded
        return bool(self.now_by_recorded.get(recorded) == now and self.recorded_by_now.get(now) == recorded)


class Names:
    """Names that each cluster chooses."""

    def __init__(self) -> None:
        """Begin with the names that are equal everywhere."""
        self.ledgers = Pairs()
        self.producers = Pairs()
        for ledger_id in sorted(SPECIAL_LEDGERS):
            self.ledgers.match(ledger_id, ledger_id)

    def note_names_of_client(self, producer: pb.CommandProducer) -> None:
        """Record a producer name chosen by the client, which is not translated."""
        if producer.user_provided_producer_name and producer.producer_name:
            self.producers.match(producer.producer_name, producer.producer_name)

    def translate(self, message: Message) -> None:
        """Translate the names in a client's command to the current ones; raises KeyError for a ledger that it never
        got.
        """
        if isinstance(message, pb.MessageIdData):
            message.ledgerId = self.ledgers.now_by_recorded[message.ledgerId]
        elif isinstance(message, pb.CommandProducer) and message.producer_name:
            message.producer_name = self.producers.now_by_recorded[message.producer_name]
        for descriptor, value in message.ListFields():
            if descriptor.type == FieldDescriptor.TYPE_MESSAGE:
                for part in value if descriptor.is_repeated else (value,):
                    self.translate(part)


# -- fields -----------------------------------------------------------------------------------------------------------


def _same_ledger(names: Names, recorded: Value, now: Value) -> bool:
    return names.ledgers.match(recorded, now)


def _same_producer(names: Names, recorded: Value, now: Value) -> bool:
    return names.producers.match(recorded, now)


def _both_or_neither(_names: Names, recorded: Value, now: Value) -> bool:
    return bool(recorded) == bool(now)


def _no_less_said(_names: Names, recorded: Value, now: Value) -> bool:
    return bool(now) or not recorded


def _nothing_said(_names: Names, _recorded: Value, now: Value) -> bool:
    return not now


def _both_addresses(_names: Names, recorded: Value, now: Value) -> bool:
    first, second = urlsplit(recorded), urlsplit(now)
    return first.scheme == second.scheme and (first.port is None) == (second.port is None)


def _both_none(_names: Names, recorded: Value, now: Value) -> bool:
    return recorded == now or (recorded in NO_SEQUENCE_ID and now in NO_SEQUENCE_ID)


def _same_mark_delete(names: Names, recorded: Value, now: Value) -> bool:
    if not now.IsInitialized():  # absent
        before_first = recorded.entryId == BEFORE_FIRST and recorded.ledgerId not in names.ledgers.now_by_recorded
        return before_first or not recorded.IsInitialized()
    return names.ledgers.match(recorded.ledgerId, now.ledgerId) and bool(recorded.entryId == now.entryId)


def _always(_names: Names, _recorded: Value, _now: Value) -> bool:
    return True


def _no_more_flags(_names: Names, recorded: Value, now: Value) -> bool:
    return all(getattr(recorded, flag.name) for flag, is_set in now.ListFields() if is_set)


class FieldDifference(NamedTuple):
    """A field with a variable value, its limits, and the reason."""

    allows: Callable[[Names, Value, Value], bool]
    reason: str


FIELDS: Mapping[str, FieldDifference] = {
    "MessageIdData.ledgerId": FieldDifference(
        _same_ledger, "each cluster numbers its ledgers; one of ours stands for one of theirs throughout"
    ),
    "CommandProducerSuccess.producer_name": FieldDifference(
        _same_producer, "each cluster makes names for producers without one; a name that the client gave is kept"
    ),
    "CommandConnected.server_version": FieldDifference(_both_or_neither, "each broker says who it is"),
    "CommandConnected.feature_flags": FieldDifference(
        _no_more_flags, "each broker says what it has: Magnetar has less, and claims nothing that Apache Pulsar has not"
    ),
    "CommandConnected.life": FieldDifference(_always, "only Magnetar names the life of its cluster; clients skip it"),
    "CommandLookupTopicResponse.brokerServiceUrl": FieldDifference(_both_addresses, "each broker has its own address"),
    "CommandLookupTopicResponse.proxy_through_service_url": FieldDifference(
        _nothing_said, "Apache Pulsar's standalone asks for it on loopback addresses, where it changes nothing"
    ),
    "CommandSendReceipt.highest_sequence_id": FieldDifference(
        _both_none, "0 and -1 both say that the client sent none; Apache Pulsar answers now this, now that"
    ),
    "CommandGetLastMessageIdResponse.consumer_mark_delete_position": FieldDifference(
        _same_mark_delete, "before its first entry a topic has no ledger here, so there is no position to tell"
    ),
    "CommandError.message": FieldDifference(_both_or_neither, "words for people"),
    "CommandPartitionedTopicMetadataResponse.message": FieldDifference(
        _no_less_said, "words for people; Apache Pulsar has none for some errors"
    ),
}
"""By message and field. A missing field equals one with its default value."""


# -- order ------------------------------------------------------------------------------------------------------------


class OrderDifference(NamedTuple):
    """Two commands for one consumer or producer with a variable order, and the reason."""

    commands: frozenset[pb.BaseCommand.Type.ValueType]
    reason: str


ORDERS: Sequence[OrderDifference] = (
    OrderDifference(
        frozenset({pb.BaseCommand.ACTIVE_CONSUMER_CHANGE, pb.BaseCommand.SUCCESS}),
        "Apache Pulsar may elect before it has answered SUBSCRIBE",
    ),
)
"""Commands with different subjects, such as a receipt and a message, have no order (see `comparison`): in Apache Pulsar
they are sent by different threads.
"""


# -- additional commands ----------------------------------------------------------------------------------------------


class MoreDifference(NamedTuple):
    """A command that only Magnetar sends, its condition, and the reason."""

    is_meant: Callable[[pb.BaseCommand, Sequence[pb.BaseCommand]], bool]
    """A function of the command, and all earlier commands of the client."""
    reason: str


def _fences(command: pb.BaseCommand, asked: Sequence[pb.BaseCommand]) -> bool:
    unasked = command.HasField("close_producer") and command.close_producer.request_id == UNSOLICITED
    return unasked and any(asking.producer.producer_access_mode == pb.ExclusiveWithFencing for asking in asked)


MORE: Sequence[MoreDifference] = (
    MoreDifference(
        _fences,
        "a producer that is fenced out hears it at once; Apache Pulsar lets it run into a closed connection, and all "
        "that is on that connection with it",
    ),
)
