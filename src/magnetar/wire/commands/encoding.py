"""Encoding that all commands share: from a protobuf body to a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

    from magnetar.base.errors import ServerError


PROTOCOL_VERSION = 20
"""The newest protocol version that Magnetar supports; it includes TOPIC_MIGRATED."""


UNSOLICITED = 2**64 - 1
"""The request id of an ERROR or CLOSE command that answers no request."""


_BODIES = {
    field.message_type.full_name: (pb.BaseCommand.Type.ValueType(field.number), field.name)
    for field in pb.BaseCommand.DESCRIPTOR.fields
    if field.message_type is not None
}


def encode(body: Message) -> bytes:
    """Encode the body of any command, such as ``pb.CommandProducer``, as a frame."""
    return encode_command(_command(body)[0])


def encode_with_id(body: Message, request_id: int) -> bytes:
    """Encode a body as ``encode``, but with another request id: a request or an answer that is passed on."""
    command, field = _command(body)
    getattr(command, field).request_id = request_id
    return encode_command(command)


def _command(body: Message) -> tuple[pb.BaseCommand, str]:
    """Return a command with a copy of its body, and the name of the body's field."""
    number, field = _BODIES[body.DESCRIPTOR.full_name]
    return pb.BaseCommand(type=number, **{field: body}), field  # type: ignore[arg-type]  # a field by name


def code_of(code: ServerError) -> pb.ServerError.ValueType:
    """Return the protobuf value of an error code; the numbers are the same."""
    return pb.ServerError.ValueType(code)


def key_values(properties: Mapping[str, str]) -> list[pb.KeyValue]:
    """Convert properties to protobuf ``KeyValue`` messages."""
    return [pb.KeyValue(key=key, value=value) for key, value in properties.items()]
