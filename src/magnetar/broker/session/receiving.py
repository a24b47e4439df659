"""Handling of received frames and their commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from magnetar.base.errors import MetadataError, RemoteProtocolError, RequestError, ServerError, StorageError
from magnetar.broker.session import consumers as session_consumers
from magnetar.broker.session import links as session_links
from magnetar.broker.session import lookup as session_lookup
from magnetar.broker.session import producers as session_producers
from magnetar.broker.session import schemas as session_schemas
from magnetar.broker.session.handshake.connecting import connect, renew
from magnetar.broker.session.permissions.checks import CHECKED, guarded
from magnetar.broker.session.requests import attempt
from magnetar.broker.session.subscribing import subscribe
from magnetar.wire.long_lists import LongList
from magnetar.wire.proto import pulsar_api_pb2 as pb
from magnetar.wire.runs import Acks, Sends

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.session.session import Session
    from magnetar.wire.frame import Frame, Received

log = structlog.get_logger(__name__)

_NOTHING: Final[list[Received]] = []
"""No remaining frames."""


def receive(session: Session, frames: list[Received]) -> list[Received]:
    """Handle frames in order, as many as the turn allows; return the remaining ones."""
    if session.liveness is not None:
        session.liveness.set()
    turns = session.environment.turns
    for number, frame in enumerate(frames, start=1):
        rest: Received | None = frame
        while rest is not None:
            rest = session_producers.publish(session, rest) if isinstance(rest, Sends) else _take(session, rest)
            if turns.is_over():
                return frames[number:] if rest is None else [rest, *frames[number:]]
    return _NOTHING


def _take(session: Session, frame: Frame | LongList | Acks) -> LongList | None:
    """Handle a frame, or a part of a large one; return the rest of it."""
    if isinstance(frame, Acks):
        session_consumers.acknowledge(session, frame)
        return None
    if isinstance(frame, LongList):
        part = session_consumers.next_part(session, frame)
        if part is not None and (part.type == pb.BaseCommand.ACK or not session.has_left):
            _handle(session, part)
        return None if frame.is_over else frame
    command = frame.command
    if command.type == pb.BaseCommand.SEND:
        session_producers.send(session, command.send, frame.body)
        return None
    if session.has_left and command.type != pb.BaseCommand.ACK:
        return None  # the connection is closed: no client would get the answer or use a created object
    _handle(session, command)
    return None


def _handle(session: Session, command: pb.BaseCommand) -> None:
    handler = _HANDLERS.get(command.type)
    if handler is None:
        _refuse_unsupported(session, command)
        return
    if command.type in _ANSWERED_BY_ERROR:
        request_id = getattr(command, _BODY_FIELDS[command.type]).request_id
        attempt(session, request_id, lambda: handler(session, command))
        return
    try:
        handler(session, command)
    except (StorageError, MetadataError) as error:
        # The command has no answer, and it concerns one of several topics of the connection.
        name = pb.BaseCommand.Type.Name(command.type)
        log.warning("command_failed", address=session.address, command=name, error=str(error))


def _refuse_unsupported(session: Session, command: pb.BaseCommand) -> None:
    """Answer an unsupported command of Pulsar with Pulsar's error for it."""
    body = getattr(command, _BODY_FIELDS[command.type])
    name = pb.BaseCommand.Type.Name(command.type)
    if "request_id" not in body.DESCRIPTOR.fields_by_name:
        message = f"{name} is not supported by this broker"
        raise RemoteProtocolError(message)
    session.answer_error(
        body.request_id, RequestError(ServerError.NotAllowedError, f"{name} is not supported by this broker")
    )


_BODY_FIELDS = {
    field.number: field.name for field in pb.BaseCommand.DESCRIPTOR.fields if field.message_type is not None
}

_OWN_REFUSAL = (pb.BaseCommand.ACK, pb.BaseCommand.PARTITIONED_METADATA, pb.BaseCommand.LOOKUP)
"""Commands that are refused with their own response."""

_ANSWERED_BY_ERROR = {
    field.number
    for field in pb.BaseCommand.DESCRIPTOR.fields
    if field.message_type is not None
    and "request_id" in field.message_type.fields_by_name
    and field.number not in _OWN_REFUSAL
}
"""Commands with a request id, which are refused with ERROR."""

_HANDLERS: dict[int, Callable[[Session, pb.BaseCommand], None]] = {
    pb.BaseCommand.CONNECT: lambda session, command: connect(session, command.connect),
    pb.BaseCommand.AUTH_RESPONSE: lambda session, command: renew(session, command.authResponse),
    pb.BaseCommand.PARTITIONED_METADATA: lambda session, command: session_lookup.partitioned_metadata(
        session, command.partitionMetadata
    ),
    pb.BaseCommand.LOOKUP: lambda session, command: session_lookup.lookup(session, command.lookupTopic),
    pb.BaseCommand.GET_TOPICS_OF_NAMESPACE: lambda session, command: session_lookup.topics_of_namespace(
        session, command.getTopicsOfNamespace
    ),
    pb.BaseCommand.WATCH_LINKS: lambda session, command: session_links.watch_links(session, command.watchLinks),
    pb.BaseCommand.CARRY_LINKS: lambda session, command: session_links.carry_links(session, command.carryLinks),
    pb.BaseCommand.WATCH_LOSSES: lambda session, command: session_links.watch_losses(session, command.watchLosses),
    pb.BaseCommand.GET_SCHEMA: lambda session, command: session_schemas.get_schema(session, command.getSchema),
    pb.BaseCommand.GET_OR_CREATE_SCHEMA: lambda session, command: session_schemas.get_or_create_schema(
        session, command.getOrCreateSchema
    ),
    pb.BaseCommand.PRODUCER: lambda session, command: session_producers.create(session, command.producer),
    pb.BaseCommand.CLOSE_PRODUCER: lambda session, command: session_producers.close(session, command.close_producer),
    pb.BaseCommand.SUBSCRIBE: lambda session, command: subscribe(session, command.subscribe),
    pb.BaseCommand.FLOW: lambda session, command: session_consumers.flow(session, command.flow),
    pb.BaseCommand.ACK: lambda session, command: session_consumers.ack(session, command.ack),
    pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: lambda session, command: session_consumers.redeliver(
        session, command.redeliverUnacknowledgedMessages
    ),
    pb.BaseCommand.UNSUBSCRIBE: lambda session, command: session_consumers.unsubscribe(session, command.unsubscribe),
    pb.BaseCommand.SEEK: lambda session, command: session_consumers.seek(session, command.seek),
    pb.BaseCommand.GET_LAST_MESSAGE_ID: lambda session, command: session_consumers.get_last_message_id(
        session, command.getLastMessageId
    ),
    pb.BaseCommand.CONSUMER_STATS: lambda session, command: session_consumers.consumer_stats(
        session, command.consumerStats
    ),
    pb.BaseCommand.CLOSE_CONSUMER: lambda session, command: session_consumers.close(session, command.close_consumer),
}
_HANDLERS |= {kind: guarded(kind, _BODY_FIELDS[kind], _HANDLERS[kind]) for kind in sorted(CHECKED)}
