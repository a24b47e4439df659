"""PRODUCER, CLOSE_PRODUCER, SEND_ERROR, and their replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.errors import ServerError
    from magnetar.base.position import Position
    from magnetar.wire.links import LinkEnd

from magnetar.wire.commands.encoding import UNSOLICITED, code_of, encode, key_values


def producer(
    *,
    topic: str,
    producer_id: int,
    request_id: int,
    producer_name: str | None = None,
    epoch: int = 0,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """Build PRODUCER: attach a producer to a topic; without a name the broker assigns one."""
    body = pb.CommandProducer(
        topic=topic,
        producer_id=producer_id,
        request_id=request_id,
        producer_name=producer_name,
        user_provided_producer_name=producer_name is not None,
        epoch=epoch,
        metadata=key_values(metadata or {}),
    )
    return encode(body)


def producer_success(
    *,
    request_id: int,
    producer_name: str,
    schema_version: bytes = b"",
    last_sequence_id: int = -1,
    topic_epoch: int | None = None,
    last_origin: Position | None = None,
) -> bytes:
    """Build PRODUCER_SUCCESS; only replication producers get ``last_origin``.

    Sequence ids are unsigned in SEND and signed here.
    """
    body = pb.CommandProducerSuccess(
        request_id=request_id,
        producer_name=producer_name,
        last_sequence_id=last_sequence_id,
        schema_version=schema_version,
        topic_epoch=topic_epoch,
        producer_ready=True,
        last_origin_message_id=None if last_origin is None else message_id(last_origin),
    )
    return encode(body)


def producer_waiting(*, request_id: int, producer_name: str) -> bytes:
    """Build PRODUCER_SUCCESS for a producer that waits for exclusive access; a further one follows."""
    body = pb.CommandProducerSuccess(
        request_id=request_id, producer_name=producer_name, schema_version=b"", producer_ready=False
    )
    return encode(body)


def send_error(
    *,
    producer_id: int,
    sequence_id: int,
    code: ServerError,
    message: str,
    is_gap: bool = False,
    held: LinkEnd | None = None,
) -> bytes:
    """Refuse a SEND; ``is_gap``: the target of a link lacks entries before it.

    ``held`` says which ones it has if the entry is in the custody of the source.
    """
    body = pb.CommandSendError(producer_id=producer_id, sequence_id=sequence_id, error=code_of(code), message=message)
    if is_gap:
        body.link_refusal = pb.LinkGap
    if held is not None:
        body.origin_cluster = held.origin
        body.last_origin_message_id.CopyFrom(message_id(held.position))
    return encode(body)


def close_producer(*, producer_id: int, request_id: int = UNSOLICITED) -> bytes:
    """Build CLOSE_PRODUCER: a client's request, or UNSOLICITED if the broker closes the producer."""
    return encode(pb.CommandCloseProducer(producer_id=producer_id, request_id=request_id))
