"""Statistics of producers and consumers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from magnetar.admin.models.model import NOT_SHOWN, Model, iso_time


@dataclass(slots=True, kw_only=True)
class PublisherStats(Model):
    """One producer."""

    access_mode: str = "Shared"
    msg_rate_in: float = 0.0
    msg_throughput_in: float = 0.0
    average_msg_size: float = 0.0
    chunked_message_rate: float = 0.0
    producer_id: int = 0
    supports_partial_producer: bool = False
    producer_name: str | None = None
    address: str | None = None
    connected_since: str | None = None
    client_version: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class NonPersistentPublisherStats(PublisherStats):
    """One producer of a non-persistent topic."""

    msg_drop_rate: float = 0.0


@dataclass(slots=True, kw_only=True)
class DrainingHash(Model):
    """A hash whose messages are held back from its new consumer until the old one has acknowledged its own."""

    hash: int
    unack_msgs: int
    blocked_attempts: int


@dataclass(slots=True, kw_only=True)
class ConsumerStats(Model):
    """One consumer of a subscription."""

    msg_rate_out: float = 0.0
    msg_throughput_out: float = 0.0
    bytes_out_counter: int = 0
    msg_out_counter: int = 0
    msg_rate_redeliver: float = 0.0
    message_ack_rate: float = 0.0
    chunked_message_rate: float = 0.0
    consumer_name: str | None = None
    consumer_id: int = field(default=0, metadata=NOT_SHOWN)
    available_permits: int = 0
    unacked_messages: int = 0
    avg_messages_per_entry: int = 0
    blocked_consumer_on_unacked_msgs: bool = False
    draining_hashes_count: int = 0
    draining_hashes_cleared_total: int = 0
    draining_hashes_unacked_messages: int = 0
    draining_hashes: list[DrainingHash] | None = None
    """Key_Shared: hashes that belong to other consumers now, and of which this consumer holds messages."""
    address: str | None = None
    connected_since: str | None = None
    client_version: str | None = None
    last_acked_timestamp: int = 0
    last_consumed_timestamp: int = 0
    last_consumed_flow_timestamp: int = 0
    key_hash_range_arrays: list[list[int]] | None = None
    """Key_Shared: hashes of the consumer's keys, as ranges with inclusive bounds."""
    metadata: dict[str, str] = field(default_factory=dict)

    def _derived(self) -> dict[str, Any]:
        return {
            "lastAckedTime": iso_time(self.last_acked_timestamp),
            "lastConsumedTime": iso_time(self.last_consumed_timestamp),
        }
