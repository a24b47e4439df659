"""Rows of stored entries, one for each: its bytes, and the columns that its metadata state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from magnetar.spark import columns
from magnetar.wire.entries.origin import origin_of, own_properties
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from magnetar.spark.read.batches.messages import Stored

    Value = Any

_MICROSECONDS = 1000
"""Microseconds in a millisecond."""


def entry_rows(topic: str, partition: int, entries: Sequence[Stored], schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of ``schema``; ``partition`` is -1 for a topic that is not partitioned."""
    if not schema.names:
        return pa.RecordBatch.from_pydict({}, schema)
    own: Mapping[str, Callable[[Stored], Value]] = {
        columns.TOPIC: lambda _: topic,
        columns.MESSAGE_ID: lambda stored: message_id(stored.position, partition=partition).SerializeToString(),
    }
    getters = {**own, **_GETTERS}
    arrays = [pa.array([getters[field.name](stored) for stored in entries], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_OptionalField = Literal["uncompressed_size", "schema_version", "uuid", "chunk_id", "num_chunks_from_msg"]


def _optional(field: _OptionalField) -> Callable[[Stored], Value]:
    """Return the getter of a field of the metadata; null if it is not set."""
    return lambda stored: getattr(stored.metadata, field) if stored.metadata.HasField(field) else None


def _origin(part: Callable[[Any], Value]) -> Callable[[Stored], Value]:
    def get(stored: Stored) -> Value:
        origin = origin_of(stored.metadata)
        return part(origin) if origin else None

    return get


_GETTERS: Mapping[str, Callable[[Stored], Value]] = {
    columns.VALUE: lambda stored: stored.entry,
    columns.PUBLISH_TIME: lambda stored: stored.metadata.publish_time * _MICROSECONDS,
    columns.PROPERTIES: lambda stored: [(one.key, one.value) for one in own_properties(stored.metadata)],
    columns.LEDGER_ID: lambda stored: stored.position.ledger_id,
    columns.ENTRY_ID: lambda stored: stored.position.entry_id,
    columns.PRODUCER_NAME: lambda stored: stored.metadata.producer_name,
    columns.SEQUENCE_ID: lambda stored: stored.metadata.sequence_id,
    columns.MESSAGES: lambda stored: stored.messages,
    columns.IS_BATCH: lambda stored: stored.metadata.HasField("num_messages_in_batch"),
    columns.ENTRY_SIZE: lambda stored: len(stored.entry),
    columns.UNCOMPRESSED_SIZE: _optional("uncompressed_size"),
    columns.COMPRESSION: lambda stored: pb.CompressionType.Name(stored.metadata.compression),
    columns.IS_ENCRYPTED: lambda stored: bool(stored.metadata.encryption_keys),
    columns.SCHEMA_VERSION: _optional("schema_version"),
    columns.CHUNK_UUID: _optional("uuid"),
    columns.CHUNK_ID: _optional("chunk_id"),
    columns.CHUNKS: _optional("num_chunks_from_msg"),
    columns.ORIGIN_CLUSTER: _origin(lambda origin: origin.cluster),
    columns.ORIGIN_LEDGER_ID: _origin(lambda origin: origin.position.ledger_id),
    columns.ORIGIN_ENTRY_ID: _origin(lambda origin: origin.position.entry_id),
}
