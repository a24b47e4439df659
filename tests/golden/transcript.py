"""A transcript: the frames between a client and a broker, as text that a person can read and compare.

::

    # What the scenario shows.
    setting: maxMessageSize=4096
    started_at_ms: 1700000000000

    operator: namespace public/greetings
    client 1: SEND producer_id: 0 sequence_id: 0
      metadata: producer_name: "standalone-0-0" sequence_id: 0 publish_time: 1700000000123
      payload: b'hello'
    broker 1: SEND_RECEIPT producer_id: 0 sequence_id: 0 message_id { ledgerId: 5 entryId: 0 }
    passed: 1002 ms
    client 1 left

Commands, and the metadata of entries, are in protobuf's text format. The number is that of the connection, which begins
with the client's first frame. An entry is written as metadata and payload, from which its bytes follow.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from google.protobuf import text_format

from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of
from magnetar.wire.frame import Frame
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from google.protobuf.message import Message

PAYLOAD_BYTES_PER_LINE = 80

_LINE = re.compile(r"(?P<side>client|broker) (?P<connection>\d+)(?P<left> left|: (?P<command>\w+) ?(?P<fields>.*))")


class Side(StrEnum):
    """The sender of a frame."""

    CLIENT = "client"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Said:
    """One frame."""

    side: Side
    connection: int
    frame: Frame


@dataclass(frozen=True, slots=True)
class Left:
    """The first close of a connection."""

    side: Side
    connection: int


@dataclass(frozen=True, slots=True)
class Operated:
    """An operator's action outside of this protocol."""

    action: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Passed:
    """A silence that is long enough to be significant."""

    milliseconds: int
    """Since the last recorded event, or the start."""


Event = Said | Left | Operated | Passed


@dataclass(frozen=True, slots=True)
class Transcript:
    """The events of one scenario in order: a response follows its request."""

    summary: str
    settings: Mapping[str, str]
    """Keys of ``broker.conf`` that differ from their defaults."""
    started_at_ms: int
    events: tuple[Event, ...]


def body_of(command: pb.BaseCommand) -> Message:
    """Return the body of a command; its field number is the command's type number."""
    body: Message = getattr(command, pb.BaseCommand.DESCRIPTOR.fields_by_number[command.type].name)
    return body


def name_of(command: pb.BaseCommand) -> str:
    """Return the name of the command's type."""
    return pb.BaseCommand.Type.Name(command.type)


# -- writing ----------------------------------------------------------------------------------------------------------


def to_text(transcript: Transcript) -> str:
    """Return the text form; raises ValueError for an entry whose bytes do not follow from the text."""
    header = [f"# {transcript.summary}"]
    header += [f"setting: {key}={value}" for key, value in transcript.settings.items()]
    header += [f"started_at_ms: {transcript.started_at_ms}", ""]
    return "".join(f"{line}\n" for line in (*header, *map(event_text, transcript.events)))


def event_text(event: Event) -> str:
    """Return one event as text, without a line break at the end."""
    match event:
        case Said(side, connection, Frame(command, entry)):
            line = f"{side} {connection}: {name_of(command)} {_one_line(body_of(command))}".rstrip()
            return "\n".join((line, *_entry_lines(entry))) if entry else line
        case Left(side, connection):
            return f"{side} {connection} left"
        case Operated(action, arguments):
            return " ".join(("operator:", action, *arguments))
        case Passed(milliseconds):
            return f"passed: {milliseconds} ms"


def _entry_lines(entry: bytes) -> Iterator[str]:
    metadata, payload = parse_metadata(entry), bytes(payload_of(entry))
    if build_entry(metadata, payload) != entry:
        message = "entry that does not follow from its metadata and payload"
        raise ValueError(message)
    yield f"  metadata: {_one_line(metadata)}"
    for start in range(0, len(payload), PAYLOAD_BYTES_PER_LINE):
        yield f"  payload: {payload[start : start + PAYLOAD_BYTES_PER_LINE]!r}"


def _one_line(message: Message) -> str:
    return text_format.MessageToString(message, as_one_line=True, as_utf8=False)


# -- reading ----------------------------------------------------------------------------------------------------------


def from_text(text: str) -> Transcript:
    """Parse the result of ``to_text``; raises ValueError or protobuf's ParseError for anything else."""
    lines = text.removesuffix("\n").split("\n")
    body = lines.index("")
    values = [line.partition(": ")[::2] for line in lines[1:body]]
    settings = dict(value.split("=", 1) for key, value in values if key == "setting")
    (started_at_ms,) = (int(value) for key, value in values if key == "started_at_ms")
    return Transcript(lines[0].removeprefix("# "), settings, started_at_ms, tuple(_events(lines[body + 1 :])))


def _events(lines: Iterable[str]) -> Iterator[Event]:
    """Parse events; the indented lines of an entry belong to the line before them."""
    text = "\n".join(lines)
    for block in re.split(r"\n(?=\S)", text):
        first, *indented = block.split("\n")
        yield _event(first, [line.strip() for line in indented])


def _event(line: str, entry_lines: list[str]) -> Event:
    kind, _, rest = line.partition(": ")
    if kind == "operator":
        action, *arguments = rest.split(" ")
        return Operated(action, tuple(arguments))
    if kind == "passed":
        return Passed(int(rest.removesuffix(" ms")))
    match = _LINE.fullmatch(line)
    if match is None:
        message = f"not a line of a transcript: {line}"
        raise ValueError(message)
    side, connection = Side(match["side"]), int(match["connection"])
    if match["command"] is None:
        return Left(side, connection)
    command = pb.BaseCommand(type=pb.BaseCommand.Type.Value(match["command"]))
    body = body_of(command)
    body.SetInParent()
    text_format.Parse(match["fields"], body)
    return Said(side, connection, Frame(command, _entry(entry_lines)))


def _entry(lines: list[str]) -> bytes:
    if not lines:
        return b""
    metadata, *payload = (line.partition(": ")[2] for line in lines)
    return build_entry(text_format.Parse(metadata, pb.MessageMetadata()), b"".join(map(ast.literal_eval, payload)))
