"""Commands of clients and brokers as encoded frames: one function per command, named after it.

Arguments have the names of the protobuf fields. A command with more fields than a function should have parameters takes
its protobuf body instead, and ``encode`` turns any body into a frame. Import this package, not its modules.
"""

from __future__ import annotations

from magnetar.wire.commands.connections import connect, connected, error, link_held, ping, pong, success
from magnetar.wire.commands.consumers import (
    ack,
    ack_response_failed,
    active_consumer_change,
    close_consumer,
    consumer_stats_response,
    flow,
    get_last_message_id,
    get_last_message_id_response,
    reached_end_of_topic,
    redeliver_unacknowledged_messages,
    seek,
    subscribe,
    unsubscribe,
)
from magnetar.wire.commands.encoding import PROTOCOL_VERSION, UNSOLICITED, encode, key_values
from magnetar.wire.commands.lookups import (
    get_or_create_schema_failed,
    get_or_create_schema_response,
    get_schema_failed,
    get_schema_response,
    get_topics_of_namespace,
    get_topics_of_namespace_response,
    lookup,
    lookup_failed,
    lookup_response,
    partitioned_metadata,
    partitioned_metadata_failed,
    partitioned_metadata_response,
)
from magnetar.wire.commands.per_message import (
    FIRST_DELIVERY,
    Delivery,
    ack_response,
    message,
    message_on_link,
    messages,
    send,
    send_receipt,
    send_receipts,
)
from magnetar.wire.commands.producers import close_producer, producer, producer_success, producer_waiting, send_error

__all__ = [
    "FIRST_DELIVERY",
    "PROTOCOL_VERSION",
    "UNSOLICITED",
    "Delivery",
    "ack",
    "ack_response",
    "ack_response_failed",
    "active_consumer_change",
    "close_consumer",
    "close_producer",
    "connect",
    "connected",
    "consumer_stats_response",
    "encode",
    "error",
    "flow",
    "get_last_message_id",
    "get_last_message_id_response",
    "get_or_create_schema_failed",
    "get_or_create_schema_response",
    "get_schema_failed",
    "get_schema_response",
    "get_topics_of_namespace",
    "get_topics_of_namespace_response",
    "key_values",
    "link_held",
    "lookup",
    "lookup_failed",
    "lookup_response",
    "message",
    "message_on_link",
    "messages",
    "partitioned_metadata",
    "partitioned_metadata_failed",
    "partitioned_metadata_response",
    "ping",
    "pong",
    "producer",
    "producer_success",
    "producer_waiting",
    "reached_end_of_topic",
    "redeliver_unacknowledged_messages",
    "seek",
    "send",
    "send_error",
    "send_receipt",
    "send_receipts",
    "subscribe",
    "success",
    "unsubscribe",
]
