"""What brokers and clients say, as frames ready for the wire: one function per command, named after it.

Arguments carry the protobuf fields' names. A command with more fields than a function should have parameters takes
its protobuf body instead, and ``encode`` turns any body into a frame.

SEND_RECEIPT, MESSAGE, SEND and ACK_RESPONSE run once per message. They fill prepared protobuf messages instead of
building new ones, which takes a third of the time; every thread has its own. For a run of them see ``run_frames``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.wire import run_frames
from magnetar.wire.frame import encode_command, frame_of
from magnetar.wire.message_id import UNSIGNED_MASK, Link, message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from google.protobuf.message import Message

    from magnetar.base.errors import ServerError

PROTOCOL_VERSION = 20
"""The newest protocol version that Magnetar speaks: up to TOPIC_MIGRATED."""

UNSOLICITED = 2**64 - 1
"""The request id of an ERROR or CLOSE that answers no request."""

_BODIES = {
    field.message_type.full_name: (pb.BaseCommand.Type.ValueType(field.number), field.name)
    for field in pb.BaseCommand.DESCRIPTOR.fields
    if field.message_type is not None
}


def encode(body: Message) -> bytes:
    """Put the body of any command, such as ``pb.CommandProducer``, into a frame."""
    number, field = _BODIES[body.DESCRIPTOR.full_name]
    return encode_command(pb.BaseCommand(type=number, **{field: body}))  # type: ignore[arg-type]  # a field by name


# --- once per message ------------------------------------------------------------------------------------------------


class _Prepared(threading.local):
    """The commands of the hot path: how each is serialized, its body, and the message id in it."""

    def __init__(self) -> None:
        command = pb.BaseCommand(type=pb.BaseCommand.SEND)
        self.send = command.SerializeToString, command.send
        command = pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT)
        self.send_receipt = command.SerializeToString, command.send_receipt, command.send_receipt.message_id
        command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE)
        self.message = command.SerializeToString, command.message, command.message.message_id
        command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE)
        self.partition_message = command.SerializeToString, command.message, command.message.message_id
        command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE)
        self.link_message = command.SerializeToString, command.message
        command = pb.BaseCommand(type=pb.BaseCommand.ACK_RESPONSE)
        self.ack_response = command.SerializeToString, command.ackResponse


_prepared = _Prepared()


@dataclass(frozen=True, slots=True)
class Delivery:
    """What sets a delivery apart from an entry's first and whole one; the fields are those of MESSAGE."""

    redelivery_count: int = 0
    ack_set: Sequence[int] = ()
    consumer_epoch: int | None = None


FIRST_DELIVERY = Delivery()


def message(
    *,
    consumer_id: int,
    position: Position,
    entry: bytes,
    partition: int = -1,
    delivery: Delivery = FIRST_DELIVERY,
) -> bytes:
    """Hand an entry to a consumer."""
    if delivery is not FIRST_DELIVERY:
        return _message_again(consumer_id, message_id(position, partition=partition), entry, delivery)
    if partition < 0:
        serialize, body, place = _prepared.message
    else:
        serialize, body, place = _prepared.partition_message
        place.partition = partition
    body.consumer_id = consumer_id
    _set(place, position)
    return frame_of(serialize(), entry)


def messages(
    *,
    consumer_id: int,
    ledger_id: int,
    entry_ids: Sequence[int],
    entries: Sequence[bytes],
    partition: int = -1,
) -> bytes:
    """Hand entries of one ledger to a consumer, each as a whole and for the first time."""
    if len(entries) >= run_frames.RUN_MIN:
        frames = run_frames.messages(consumer_id, ledger_id, entry_ids, entries, partition)
        if frames is not None:
            return frames
    return b"".join(
        message(consumer_id=consumer_id, position=Position(ledger_id, entry_id), entry=entry, partition=partition)
        for entry_id, entry in zip(entry_ids, entries, strict=True)
    )


def _message_again(consumer_id: int, place: pb.MessageIdData, entry: bytes, delivery: Delivery) -> bytes:
    """Hand an entry to a consumer, not for the first time or not as a whole."""
    body = pb.CommandMessage(
        consumer_id=consumer_id,
        message_id=place,
        redelivery_count=delivery.redelivery_count,
        ack_set=delivery.ack_set,
        consumer_epoch=delivery.consumer_epoch,
    )
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.MESSAGE, message=body), entry)


def message_on_link(*, consumer_id: int, position: Position, entry: bytes, link: Link) -> bytes:
    """Hand an entry to a replication consumer, with its place on the link."""
    serialize, body = _prepared.link_message
    body.consumer_id = consumer_id
    _set(body.message_id, position)
    _set(body.previous_message_id, link.previous)
    _set(body.floor_message_id, link.floor)
    body.link_start = link.link_start
    return frame_of(serialize(), entry)


def send(
    *,
    producer_id: int,
    sequence_id: int,
    entry: bytes,
    num_messages: int = 1,
    marker: bool = False,
    is_chunk: bool = False,
) -> bytes:
    """Publish an entry."""
    serialize, body = _prepared.send
    body.producer_id = producer_id
    body.sequence_id = sequence_id
    body.num_messages = num_messages
    body.marker = marker
    body.is_chunk = is_chunk
    return frame_of(serialize(), entry)


def send_receipt(*, producer_id: int, sequence_id: int, position: Position, highest_sequence_id: int = 0) -> bytes:
    """Acknowledge a SEND; the position is EARLIEST (-1:-1) for what was dropped as a duplicate."""
    serialize, body, place = _prepared.send_receipt
    body.producer_id = producer_id
    body.sequence_id = sequence_id
    body.highest_sequence_id = highest_sequence_id
    _set(place, position)
    return frame_of(serialize())


def send_receipts(*, producer_id: int, heads: Sequence[tuple[int, int, int]], first: Position) -> bytes:
    """Acknowledge SENDs whose entries lie next to each other, the first at ``first``; see ``Sends.heads``."""
    if len(heads) >= run_frames.RUN_MIN:
        frames = run_frames.send_receipts(producer_id, heads, first)
        if frames is not None:
            return frames
    return b"".join(
        send_receipt(
            producer_id=producer_id,
            sequence_id=sequence_id,
            highest_sequence_id=highest,
            position=Position(first.ledger_id, entry_id),
        )
        for entry_id, (sequence_id, highest, _) in enumerate(heads, first.entry_id)
    )


def ack_response(*, consumer_id: int, request_id: int) -> bytes:
    """Confirm an ACK that carried a request id."""
    serialize, body = _prepared.ack_response
    body.consumer_id = consumer_id
    body.request_id = request_id
    return frame_of(serialize())


def _set(data: pb.MessageIdData, position: Position) -> None:
    """Write a position into a message id that has no other field set."""
    ledger_id, entry_id = position
    data.ledgerId = ledger_id & UNSIGNED_MASK
    data.entryId = entry_id & UNSIGNED_MASK


# --- the connection --------------------------------------------------------------------------------------------------


def connect(
    *,
    client_version: str,
    protocol_version: int = PROTOCOL_VERSION,
    feature_flags: pb.FeatureFlags | None = None,
    auth_method_name: str | None = None,
    auth_data: bytes | None = None,
) -> bytes:
    """Open the handshake."""
    body = pb.CommandConnect(
        client_version=client_version,
        protocol_version=protocol_version,
        feature_flags=feature_flags,
        auth_method_name=auth_method_name,
        auth_data=auth_data,
    )
    return encode(body)


def connected(
    *,
    server_version: str,
    protocol_version: int,
    max_message_size: int,
    feature_flags: pb.FeatureFlags | None = None,
    life: str | None = None,
) -> bytes:
    """Finish the handshake; ``life`` is the life of the broker's cluster (base/life.py)."""
    body = pb.CommandConnected(
        server_version=server_version,
        protocol_version=protocol_version,
        max_message_size=max_message_size,
        feature_flags=feature_flags,
        life=life,
    )
    return encode(body)


def ping() -> bytes:
    """Ask whether the peer lives."""
    return _PING


def pong() -> bytes:
    """Say that we live."""
    return _PONG


_PING = encode(pb.CommandPing())
_PONG = encode(pb.CommandPong())


def success(*, request_id: int) -> bytes:
    """Grant a request that has no answer of its own."""
    return encode(pb.CommandSuccess(request_id=request_id))


def error(*, request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse a request."""
    return encode(pb.CommandError(request_id=request_id, error=_code(code), message=message))


def _code(code: ServerError) -> pb.ServerError.ValueType:
    """The wire's name for an error; the numbers are the same."""
    return pb.ServerError.ValueType(code)


# --- lookup ----------------------------------------------------------------------------------------------------------


def partitioned_metadata(*, topic: str, request_id: int, metadata_auto_creation_enabled: bool = True) -> bytes:
    """Ask how many partitions a topic has."""
    body = pb.CommandPartitionedTopicMetadata(
        topic=topic,
        request_id=request_id,
        metadata_auto_creation_enabled=metadata_auto_creation_enabled,
    )
    return encode(body)


def partitioned_metadata_response(*, request_id: int, partitions: int) -> bytes:
    """Say how many partitions a topic has; 0 when it is not partitioned."""
    body = pb.CommandPartitionedTopicMetadataResponse(
        request_id=request_id,
        partitions=partitions,
        response=pb.CommandPartitionedTopicMetadataResponse.Success,
    )
    return encode(body)


def partitioned_metadata_failed(*, request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse PARTITIONED_METADATA."""
    body = pb.CommandPartitionedTopicMetadataResponse(
        request_id=request_id,
        response=pb.CommandPartitionedTopicMetadataResponse.Failed,
        error=_code(code),
        message=message,
    )
    return encode(body)


def lookup(*, topic: str, request_id: int, authoritative: bool = False) -> bytes:
    """Ask which broker owns a topic."""
    return encode(pb.CommandLookupTopic(topic=topic, request_id=request_id, authoritative=authoritative))


def lookup_response(
    *,
    request_id: int,
    broker_service_url: str,
    broker_service_url_tls: str | None = None,
    redirect: bool = False,
    authoritative: bool = True,
) -> bytes:
    """Name the owner of a topic or, with ``redirect``, the broker to ask next."""
    kind = pb.CommandLookupTopicResponse.Redirect if redirect else pb.CommandLookupTopicResponse.Connect
    body = pb.CommandLookupTopicResponse(
        request_id=request_id,
        brokerServiceUrl=broker_service_url,
        brokerServiceUrlTls=broker_service_url_tls,
        response=kind,
        authoritative=authoritative,
    )
    return encode(body)


def lookup_failed(*, request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse LOOKUP."""
    body = pb.CommandLookupTopicResponse(
        request_id=request_id,
        response=pb.CommandLookupTopicResponse.Failed,
        error=_code(code),
        message=message,
    )
    return encode(body)


def get_topics_of_namespace(
    *,
    request_id: int,
    namespace: str,
    mode: pb.CommandGetTopicsOfNamespace.Mode.ValueType = pb.CommandGetTopicsOfNamespace.PERSISTENT,
    topics_hash: str | None = None,
) -> bytes:
    """Ask for the full names of a namespace's topics, partitions included; for none if their hash is the one given."""
    body = pb.CommandGetTopicsOfNamespace(
        request_id=request_id,
        namespace=namespace,
        mode=mode,
        topics_hash=topics_hash,
    )
    return encode(body)


def get_topics_of_namespace_response(
    *,
    request_id: int,
    topics: Iterable[str],
    topics_hash: str,
    filtered: bool = False,
    changed: bool = True,
) -> bytes:
    """Name a namespace's topics; none, and not ``changed``, when the client's hash is still right."""
    body = pb.CommandGetTopicsOfNamespaceResponse(
        request_id=request_id,
        topics=topics,
        topics_hash=topics_hash,
        filtered=filtered,
        changed=changed,
    )
    return encode(body)


# --- producers -------------------------------------------------------------------------------------------------------


def producer(
    *,
    topic: str,
    producer_id: int,
    request_id: int,
    producer_name: str | None = None,
    epoch: int = 0,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """Ask to publish to a topic; without a name the broker gives one."""
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
    last_sequence_id: int = -1,
    topic_epoch: int | None = None,
    producer_ready: bool = True,
    last_origin: Position | None = None,
) -> bytes:
    """Admit a producer; ``last_origin`` goes to replication producers only."""
    body = pb.CommandProducerSuccess(
        request_id=request_id,
        producer_name=producer_name,
        last_sequence_id=last_sequence_id,
        schema_version=b"",
        topic_epoch=topic_epoch,
        producer_ready=producer_ready,
        last_origin_message_id=None if last_origin is None else message_id(last_origin),
    )
    return encode(body)


def send_error(*, producer_id: int, sequence_id: int, code: ServerError, message: str) -> bytes:
    """Refuse a SEND."""
    body = pb.CommandSendError(producer_id=producer_id, sequence_id=sequence_id, error=_code(code), message=message)
    return encode(body)


def close_producer(*, producer_id: int, request_id: int = UNSOLICITED) -> bytes:
    """Close a producer: a request of the client, or the broker's own doing."""
    return encode(pb.CommandCloseProducer(producer_id=producer_id, request_id=request_id))


def key_values(properties: Mapping[str, str]) -> list[pb.KeyValue]:
    """Write properties as the protobuf messages that hold them."""
    return [pb.KeyValue(key=key, value=value) for key, value in properties.items()]


# --- consumers -------------------------------------------------------------------------------------------------------


def subscribe(body: pb.CommandSubscribe) -> bytes:
    """Ask to consume a subscription."""
    return encode(body)


def flow(*, consumer_id: int, message_permits: int) -> bytes:
    """Permit the broker to send so many messages more; at least 1."""
    return encode(pb.CommandFlow(consumer_id=consumer_id, messagePermits=message_permits))


def ack(
    *,
    consumer_id: int,
    message_ids: Iterable[pb.MessageIdData],
    cumulative: bool = False,
    request_id: int | None = None,
) -> bytes:
    """Acknowledge messages, or with ``cumulative`` everything up to and including the only one given."""
    body = pb.CommandAck(
        consumer_id=consumer_id,
        ack_type=pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual,
        message_id=message_ids,
        request_id=request_id,
    )
    return encode(body)


def ack_response_failed(*, consumer_id: int, request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse an ACK that carried a request id."""
    body = pb.CommandAckResponse(consumer_id=consumer_id, request_id=request_id, error=_code(code), message=message)
    return encode(body)


def redeliver_unacknowledged_messages(*, consumer_id: int, message_ids: Iterable[pb.MessageIdData] = ()) -> bytes:
    """Ask for messages again; for all that are unacknowledged when none is given."""
    return encode(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=consumer_id, message_ids=message_ids))


def unsubscribe(*, consumer_id: int, request_id: int, force: bool = False) -> bytes:
    """Ask to delete the subscription."""
    return encode(pb.CommandUnsubscribe(consumer_id=consumer_id, request_id=request_id, force=force))


def seek(
    *,
    consumer_id: int,
    request_id: int,
    position: Position | None = None,
    publish_time_ms: int | None = None,
) -> bytes:
    """Ask to move the subscription to a position or to a publish time, of which exactly one is given."""
    body = pb.CommandSeek(
        consumer_id=consumer_id,
        request_id=request_id,
        message_id=None if position is None else message_id(position),
        message_publish_time=publish_time_ms,
    )
    return encode(body)


def get_last_message_id(*, consumer_id: int, request_id: int) -> bytes:
    """Ask for the topic's last message."""
    return encode(pb.CommandGetLastMessageId(consumer_id=consumer_id, request_id=request_id))


def get_last_message_id_response(
    *,
    request_id: int,
    last_message_id: pb.MessageIdData,
    mark_delete_position: Position = EARLIEST,
) -> bytes:
    """Name the topic's last message, and how far the subscription has come unless it is at the very start."""
    marked = None if mark_delete_position.ledger_id < 0 else message_id(mark_delete_position)
    body = pb.CommandGetLastMessageIdResponse(
        request_id=request_id,
        last_message_id=last_message_id,
        consumer_mark_delete_position=marked,
    )
    return encode(body)


def close_consumer(*, consumer_id: int, request_id: int = UNSOLICITED) -> bytes:
    """Close a consumer: a request of the client, or the broker's own doing."""
    return encode(pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=request_id))


def active_consumer_change(*, consumer_id: int, is_active: bool) -> bytes:
    """Tell a consumer of a failover subscription whether it is the active one."""
    return encode(pb.CommandActiveConsumerChange(consumer_id=consumer_id, is_active=is_active))


def reached_end_of_topic(*, consumer_id: int) -> bytes:
    """Tell a consumer that its topic is terminated and read; the C++ client closes the connection on it."""
    return encode(pb.CommandReachedEndOfTopic(consumer_id=consumer_id))


def consumer_stats_response(body: pb.CommandConsumerStatsResponse) -> bytes:
    """Answer CONSUMER_STATS."""
    return encode(body)


# --- schemas ---------------------------------------------------------------------------------------------------------


def get_schema_response(*, request_id: int, schema: pb.Schema, schema_version: bytes) -> bytes:
    """Hand out a schema."""
    return encode(pb.CommandGetSchemaResponse(request_id=request_id, schema=schema, schema_version=schema_version))


def get_schema_failed(*, request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse GET_SCHEMA; TopicNotFound means that the topic has no schema."""
    return encode(pb.CommandGetSchemaResponse(request_id=request_id, error_code=_code(code), error_message=message))


def get_or_create_schema_response(*, request_id: int, schema_version: bytes) -> bytes:
    """Say which version a schema has; empty when there is no registry."""
    return encode(pb.CommandGetOrCreateSchemaResponse(request_id=request_id, schema_version=schema_version))


def get_or_create_schema_failed(*, request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse GET_OR_CREATE_SCHEMA."""
    body = pb.CommandGetOrCreateSchemaResponse(request_id=request_id, error_code=_code(code), error_message=message)
    return encode(body)
