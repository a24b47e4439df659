"""Comparison of Magnetar's output with Apache Pulsar's: matching of commands, and allowed differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.descriptor import FieldDescriptor

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.golden.differences import FIELDS, MORE, ORDERS
from tests.golden.transcript import body_of, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.message import Message

    from magnetar.wire.frame import Frame
    from tests.golden.differences import Names

Subject = tuple[str, int]
"""The subject of a command. Commands with the same subject keep their order; others have no order."""

_CONNECTION = ("connection", 0)

_ALONE = frozenset(
    {
        pb.BaseCommand.PARTITIONED_METADATA_RESPONSE,
        pb.BaseCommand.LOOKUP_RESPONSE,
        pb.BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE,
        pb.BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE,
    }
)
"""Responses that are matched by their request id, whatever else is in progress."""


class Requests:
    """The requests of one client, which determine the subjects of responses."""

    def __init__(self) -> None:
        """Begin without requests."""
        self.said: list[pb.BaseCommand] = []
        self._subjects: dict[int, Subject] = {}

    def note(self, command: pb.BaseCommand) -> None:
        """Record a command of the client.

        Lookups have separate request ids, and need no record (protocol: Request ids).
        """
        self.said.append(command)
        request_id = getattr(body_of(command), "request_id", None)
        subject = _resource(command)
        if request_id is not None and subject is not None:
            self._subjects[request_id] = subject

    def subject(self, command: pb.BaseCommand) -> Subject:
        """Return the subject of a broker's command."""
        request_id = getattr(body_of(command), "request_id", 0)
        if command.type in _ALONE:
            return name_of(command), request_id
        return _resource(command) or self._subjects.get(request_id, _CONNECTION)


def _resource(command: pb.BaseCommand) -> Subject | None:
    """Return the consumer or producer that the command names."""
    body = body_of(command)
    for kind in ("consumer_id", "producer_id"):
        if kind in body.DESCRIPTOR.fields_by_name:
            return kind, getattr(body, kind)
    return None


def is_ordered(command: pb.BaseCommand, other: pb.BaseCommand) -> bool:
    """Return whether two commands with the same subject must be in the recorded order."""
    return all(order.commands != {command.type, other.type} for order in ORDERS)


def find(recorded: pb.BaseCommand, heard: Sequence[Frame], requests: Requests) -> int | None:
    """Return the index of the match of a recorded command: the first one with the same subject and a valid order."""
    subject = requests.subject(recorded)
    for place, now in enumerate(heard):
        if requests.subject(now.command) == subject and is_ordered(recorded, now.command):
            return place
    return None


def is_more(now: pb.BaseCommand, requests: Requests) -> bool:
    """Return whether only Magnetar sends the command."""
    return any(more.is_meant(now, requests.said) for more in MORE)


def difference(names: Names, recorded: Frame, now: Frame) -> str | None:
    """Return the forbidden difference between two frames; None if there is none."""
    if recorded.command.type != now.command.type:
        return f"recorded {name_of(recorded.command)}, now {name_of(now.command)}"
    found = _difference(names, body_of(recorded.command), body_of(now.command))
    if found is not None:
        return found
    return None if recorded.body == now.body else f"entry: recorded {recorded.body!r}, now {now.body!r}"


def _difference(names: Names, recorded: Message, now: Message) -> str | None:
    for descriptor in recorded.DESCRIPTOR.fields:
        allowed = FIELDS.get(f"{recorded.DESCRIPTOR.name}.{descriptor.name}")
        left, right = getattr(recorded, descriptor.name), getattr(now, descriptor.name)
        if allowed is not None:
            same = allowed.allows(names, left, right)
        elif descriptor.type != FieldDescriptor.TYPE_MESSAGE:
            same = left == right
        else:
            lefts, rights = _parts(recorded, descriptor.name), _parts(now, descriptor.name)
            same = len(lefts) == len(rights)
            for part, counterpart in zip(lefts, rights, strict=False):
                if found := _difference(names, part, counterpart):
                    return f"{descriptor.name}.{found}"
        if not same:
            return f"{descriptor.name}: recorded {left!r}, now {right!r}"
    return None


def _parts(message: Message, field: str) -> list[Message]:
    """Return the messages in a field, repeated or single."""
    if message.DESCRIPTOR.fields_by_name[field].is_repeated:
        return list(getattr(message, field))
    return [getattr(message, field)] if message.HasField(field) else []
