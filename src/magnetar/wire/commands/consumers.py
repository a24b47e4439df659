"""SUBSCRIBE, FLOW, ACK, SEEK and the like, and their answers."""

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
    body = pb.CommandAckResponse(consumer_id=consumer_id, request_id=request_id, error=code_of(code), message=message)
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
