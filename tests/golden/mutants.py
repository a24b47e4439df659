"""Transcripts with one error each, which the comparison must detect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from google.protobuf.descriptor import FieldDescriptor

from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.golden.comparison import Requests, is_ordered
from tests.golden.differences import FIELDS, SPECIAL_LEDGERS
from tests.golden.transcript import Said, Side, body_of, event_text, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from google.protobuf.message import Message

    from tests.golden.differences import Value
    from tests.golden.transcript import Event, Transcript


TOO_DIFFERENT: Mapping[str, Value] = {
    "CommandConnected.feature_flags": pb.FeatureFlags(supports_topic_watchers=True),
    "CommandConnected.server_version": "",
    "CommandError.message": "",
    "CommandGetLastMessageIdResponse.consumer_mark_delete_position": pb.MessageIdData(ledgerId=0, entryId=1 << 40),
    "CommandLookupTopicResponse.brokerServiceUrl": "http://127.0.0.1:8080",
    "CommandSendReceipt.highest_sequence_id": 7,
}
"""By message and field: values that are equal to none of Magnetar's."""


@dataclass(frozen=True)
class Mutant:
    """A transcript that must be rejected, and a description of its error."""

    change: str
    transcript: Transcript


def _edited(transcript: Transcript, place: int, removed: int, *put: Event) -> Transcript:
    events = transcript.events
    return replace(transcript, events=(*events[:place], *put, *events[place + removed :]))


def _of_broker(transcript: Transcript) -> Iterator[tuple[int, Said]]:
    for place, event in enumerate(transcript.events):
        if isinstance(event, Said) and event.side == Side.BROKER:
            yield place, event


def dropped(transcript: Transcript) -> Iterator[Mutant]:
    """One event is missing."""
    for place, said in _of_broker(transcript):
        yield Mutant(f"without {place}: {event_text(said)}", _edited(transcript, place, 1))


def repeated(transcript: Transcript) -> Iterator[Mutant]:
    """One event is repeated."""
    for place, said in _of_broker(transcript):
        yield Mutant(f"twice {place}: {event_text(said)}", _edited(transcript, place, 0, said))


def swapped(transcript: Transcript) -> Iterator[Mutant]:
    """Two events with the same subject are swapped."""
    requests: dict[int, Requests] = {}
    last: dict[tuple[int, tuple[str, int]], tuple[int, Said]] = {}
    for place, event in enumerate(transcript.events):
        if not isinstance(event, Said):
            continue
        known = requests.setdefault(event.connection, Requests())
        if event.side == Side.CLIENT:
            known.note(event.frame.command)
            continue
        about = event.connection, known.subject(event.frame.command)
        before = last.get(about)
        last[about] = place, event
        if before is not None and before[1] != event and is_ordered(before[1].frame.command, event.frame.command):
            exchanged = _edited(_edited(transcript, place, 1, before[1]), before[0], 1, event)
            yield Mutant(f"{before[0]} and {place} swapped: {event_text(event)}", exchanged)


def answered_early(transcript: Transcript) -> Iterator[Mutant]:
    """A response precedes its request."""
    for place, (asked, answer) in enumerate(pairwise(transcript.events)):
        if isinstance(asked, Said) and isinstance(answer, Said) and _answers(asked, answer):
            yield Mutant(f"before {place}: {event_text(answer)}", _edited(transcript, place, 2, answer, asked))


def _answers(asked: Said, answer: Said) -> bool:
    """Return whether the second is the response to the first.

    Lookups have separate request ids (protocol: Request ids).
    """
    question, reply = body_of(asked.frame.command), body_of(answer.frame.command)
    request_id = getattr(question, "request_id", None)
    if asked.side == answer.side or request_id is None or request_id != getattr(reply, "request_id", None):
        return False
    if name_of(answer.frame.command).startswith(name_of(asked.frame.command)):
        return True
    return {"consumer_id", "producer_id"} & set(question.DESCRIPTOR.fields_by_name) != set() and isinstance(
        reply, pb.CommandSuccess | pb.CommandError
    )


def changed_field(transcript: Transcript) -> Iterator[Mutant]:
    """A field has another value."""
    for place, said in _of_broker(transcript):
        for number, (_, field) in enumerate(_values(body_of(said.frame.command))):
            command = _copy(said.frame.command)
            holder, _ = list(_values(body_of(command)))[number]
            _change(holder, field)
            yield _with_command(transcript, place, f"other {field.name}", said, command)


def exceeded_difference(transcript: Transcript) -> Iterator[Mutant]:
    """A field with a variable value exceeds its limits."""
    for place, said in _of_broker(transcript):
        for name, value in TOO_DIFFERENT.items():
            message_name, _, field = name.partition(".")
            command = _copy(said.frame.command)
            body = body_of(command)
            if body.DESCRIPTOR.name == message_name and body.HasField(field):
                body.ClearField(field)
                body.MergeFrom(type(body)(**{field: value}))
                yield _with_command(transcript, place, f"{field} {value!r}", said, command)


def other_ledger(transcript: Transcript) -> Iterator[Mutant]:
    """A position is in another ledger than the earlier ones."""
    known: set[int] = set()
    for place, said in _of_broker(transcript):
        for number, message_id in enumerate(_message_ids(said.frame.command)):
            if message_id.ledgerId in known:
                command = _copy(said.frame.command)
                list(_message_ids(command))[number].ledgerId = max(known) + 1
                yield _with_command(transcript, place, "other ledger", said, command)
            elif message_id.ledgerId not in SPECIAL_LEDGERS:
                known.add(message_id.ledgerId)


def changed_payload(transcript: Transcript) -> Iterator[Mutant]:
    """One byte of a published or delivered message differs; its checksum is correct."""
    delivered = {said.frame.body for _, said in _of_broker(transcript)}
    for place, event in enumerate(transcript.events):
        if isinstance(event, Said) and event.frame.body and event.frame.body in delivered:
            metadata, payload = parse_metadata(event.frame.body), bytearray(payload_of(event.frame.body))
            if payload:
                payload[len(payload) // 2] ^= 1
                frame = event.frame._replace(body=build_entry(metadata, bytes(payload)))
                changed = _edited(transcript, place, 1, replace(event, frame=frame))
                yield Mutant(f"other payload in {place}: {event_text(event)}", changed)


KINDS: Mapping[str, Callable[[Transcript], Iterator[Mutant]]] = {
    kind.__name__: kind
    for kind in (
        dropped,
        repeated,
        swapped,
        answered_early,
        changed_field,
        exceeded_difference,
        other_ledger,
        changed_payload,
    )
}


# -- one changed command ----------------------------------------------------------------------------------------------


def _copy(command: pb.BaseCommand) -> pb.BaseCommand:
    copied = pb.BaseCommand()
    copied.CopyFrom(command)
    return copied


def _with_command(transcript: Transcript, place: int, change: str, said: Said, command: pb.BaseCommand) -> Mutant:
    other = replace(said, frame=said.frame._replace(command=command))
    return Mutant(f"{change} in {place}: {event_text(said)}", _edited(transcript, place, 1, other))


def _values(message: Message) -> Iterator[tuple[Message, FieldDescriptor]]:
    """Yield the fields with fixed values, each with its message."""
    for field, value in message.ListFields():
        if f"{message.DESCRIPTOR.name}.{field.name}" in FIELDS:
            continue
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            yield message, field
        else:
            for part in value if field.is_repeated else (value,):
                yield from _values(part)


def _change(message: Message, field: FieldDescriptor) -> None:
    value = getattr(message, field.name)
    if field.is_repeated:
        value[0] = _other(field, value[0])
    else:
        setattr(message, field.name, _other(field, value))


def _other(field: FieldDescriptor, value: Value) -> Value:
    """Return a different value."""
    if field.enum_type is not None:
        return next(number for number in field.enum_type.values_by_number if number != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value ^ 1
    return value + ("x" if isinstance(value, str) else b"x")


def _message_ids(command: pb.BaseCommand) -> Iterator[pb.MessageIdData]:
    """Yield the message ids in a broker's command that must be equal."""
    body = body_of(command)
    for field, value in body.ListFields():
        if isinstance(value, pb.MessageIdData) and f"{body.DESCRIPTOR.name}.{field.name}" not in FIELDS:
            yield value
