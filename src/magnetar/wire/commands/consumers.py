"""SUBSCRIBE, FLOW, ACK, SEEK and the other commands of consumers, and their replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.errors import ServerError

from magnetar.wire.commands.encoding import UNSOLICITED, code_of, encode


def subscribe(body: pb.CommandSubscribe) -> bytes:
    """Build SUBSCRIBE: attach a consumer to a subscription."""
    return encode(body)


def flow(*, consumer_id: int, message_permits: int) -> bytes:
    """Build FLOW: grant the broker ``message_permits`` more messages, at least 1."""
    return encode(pb.CommandFlow(consumer_id=consumer_id, messagePermits=message_permits))


def ack(
    *,
    consumer_id: int,
    message_ids: Iterable[pb.MessageIdData],
    cumulative: bool = False,
    request_id: int | None = None,
) -> bytes:
    """Build ACK of the given messages; ``cumulative`` takes exactly one and acknowledges up to and including it."""
    body = pb.CommandAck(
        consumer_id=consumer_id,
        ack_type=pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual,
        message_id=message_ids,
        request_id=request_id,
    )
    return encode(body)


def ack_response_failed(*, consumer_id: int, request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse an ACK that carried a request id."""
    body = pb.CommandAckResponse(consumer_id=consumer_id, request_id=request_id, error=code_of(code), message=message)
    return encode(body)


def redeliver_unacknowledged_messages(*, consumer_id: int, message_ids: Iterable[pb.MessageIdData] = ()) -> bytes:
    """Build REDELIVER_UNACKNOWLEDGED_MESSAGES, for all messages of the consumer if none are given."""
    return encode(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=consumer_id, message_ids=message_ids))


def unsubscribe(*, consumer_id: int, request_id: int, force: bool = False) -> bytes:
    """Build UNSUBSCRIBE: delete the subscription."""
    return encode(pb.CommandUnsubscribe(consumer_id=consumer_id, request_id=request_id, force=force))


def seek(
    *,
    consumer_id: int,
    request_id: int,
    position: Position | None = None,
    publish_time_ms: int | None = None,
    origin: str = "",
) -> bytes:
    """Build SEEK to exactly one of a position and a publish time in milliseconds since the epoch.

    On a link, ``origin`` is the cluster of the position if its entries are in the custody of the source.
    """
    body = pb.CommandSeek(
        consumer_id=consumer_id,
        request_id=request_id,
        message_id=None if position is None else message_id(position),
        message_publish_time=publish_time_ms,
        origin_cluster=origin or None,
    )
    return encode(body)


def get_last_message_id(*, consumer_id: int, request_id: int) -> bytes:
    """Build GET_LAST_MESSAGE_ID: request the topic's last message id."""
    return encode(pb.CommandGetLastMessageId(consumer_id=consumer_id, request_id=request_id))


def get_last_message_id_response(
    *,
    request_id: int,
    last_message_id: pb.MessageIdData,
    mark_delete_position: Position = EARLIEST,
) -> bytes:
    """Build the reply to GET_LAST_MESSAGE_ID; a mark-delete position of EARLIEST is left out."""
    marked = None if mark_delete_position.ledger_id < 0 else message_id(mark_delete_position)
    body = pb.CommandGetLastMessageIdResponse(
        request_id=request_id,
        last_message_id=last_message_id,
        consumer_mark_delete_position=marked,
    )
    return encode(body)


def close_consumer(*, consumer_id: int, request_id: int = UNSOLICITED, rests: bool = False) -> bytes:
    """Build CLOSE_CONSUMER: a client's request, or UNSOLICITED if the broker closes the consumer.

    ``rests`` if the consumer holds a link that rests from now on.
    """
    body = pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=request_id)
    if rests:
        body.rests = True
    return encode(body)


def active_consumer_change(*, consumer_id: int, is_active: bool) -> bytes:
    """Tell a consumer of a failover subscription whether it is the active one."""
    return encode(pb.CommandActiveConsumerChange(consumer_id=consumer_id, is_active=is_active))


def reached_end_of_topic(*, consumer_id: int) -> bytes:
    """Tell a consumer that its topic is terminated and fully read; the C++ client then closes the connection."""
    return encode(pb.CommandReachedEndOfTopic(consumer_id=consumer_id))


def consumer_stats_response(body: pb.CommandConsumerStatsResponse) -> bytes:
    """Build the reply to CONSUMER_STATS."""
    return encode(body)
