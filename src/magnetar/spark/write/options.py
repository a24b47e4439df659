"""Options of a write."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, field_validator

from magnetar.base.limits import OPENED_BATCH_MESSAGES_MAX
from magnetar.spark.options import Options
from magnetar.wire.entries.batch import compression_named

if TYPE_CHECKING:
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class DeliveryGuarantee(StrEnum):
    """What a repeated task or batch does to messages that its earlier run published."""

    EXACTLY_ONCE = "exactly-once"
    """They are not published again. The topics need deduplication."""
    AT_LEAST_ONCE = "at-least-once"
    """They may be published again."""


class WriteOptions(Options):
    """Options of a write. Those of ``pulsar.producer`` have the names and defaults of Pulsar's Java client."""

    topic: str = ""
    """The topic of all rows; without it, each row has its topic in the column ``__topic``."""
    delivery_guarantee: Annotated[DeliveryGuarantee, Field(alias="deliveryGuarantee")] = DeliveryGuarantee.EXACTLY_ONCE
    batching_enabled: Annotated[bool, Field(alias="pulsar.producer.batchingEnabled")] = True
    batching_max_messages: Annotated[
        int, Field(alias="pulsar.producer.batchingMaxMessages", ge=1, le=OPENED_BATCH_MESSAGES_MAX)
    ] = 1_000
    batching_max_bytes: Annotated[int, Field(alias="pulsar.producer.batchingMaxBytes", ge=1)] = 128 * 1024
    """Bytes of the messages of a batch before compression. A larger message is a batch of its own."""
    compression_type: Annotated[str, Field(alias="pulsar.producer.compressionType")] = "NONE"
    send_timeout_ms: Annotated[int, Field(alias="pulsar.producer.sendTimeoutMs", ge=1)] = 30_000
    """Time in which a broker must accept the producer, or answer an entry. It includes new connections."""

    @field_validator("compression_type")
    @classmethod
    def _check_compression(cls, value: str) -> str:
        compression_named(value)
        return value

    @property
    def compression(self) -> pb.CompressionType.ValueType:
        """The compression of batches."""
        return compression_named(self.compression_type)

    @property
    def is_exactly_once(self) -> bool:
        """Whether messages of an earlier run are not published again."""
        return self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
