"""Entries of messages, batched and compressed as Pulsar's clients do it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.spark.write.rows import UnwritableRowError, key_text
from magnetar.wire.entries.batch import BatchedMessage, compress, encode_batch
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.spark.write.options import WriteOptions
    from magnetar.spark.write.rows import EntryFields, Row

_OVERHEAD = 32
"""Bytes of a batched message besides its value, key and properties, at most."""


class Entry(NamedTuple):
    """An entry to publish, and the rows in it."""

    sequence_id: int
    """Of the first message."""
    highest_sequence_id: int
    """Of the last message."""
    data: bytes
    rows: Sequence[Row]


class EntryBuilder:
    """Gathers the messages of one producer to entries. Sequence ids are consecutive, across entries as well."""

    def __init__(self, options: WriteOptions, producer_name: str, now_ms: Callable[[], int]) -> None:
        """Create a builder for entries of ``producer_name``; ``now_ms`` gives publish times of rows without one."""
        self._options = options
        self._producer_name = producer_name
        self._now_ms = now_ms
        self._next = 0
        self._rows: list[Row] = []
        self._size = 0

    def start(self, sequence_id: int) -> None:
        """Give the next message this sequence id."""
        self._next = sequence_id

    def add(self, row: Row) -> list[Entry]:
        """Add a message; return the entries that are complete now."""
        size = _size_of(row)
        complete = []
        if self._rows and (
            self._size + size > self._options.batching_max_bytes or row.entry_fields != self._rows[0].entry_fields
        ):
            complete += self.finish()
        self._rows.append(row)
        self._size += size
        limit = self._options.batching_max_messages if self._options.batching_enabled else 1
        if len(self._rows) >= limit:
            complete += self.finish()
        return complete

    def finish(self) -> list[Entry]:
        """Return the entry of the messages so far; none if there are no messages."""
        if not self._rows:
            return []
        rows, first = self._rows, self._next
        self._rows, self._size, self._next = [], 0, first + len(rows)
        last = self._next - 1
        build = self._batch if self._options.batching_enabled else self._message
        return [Entry(first, last, build(rows, first, last), rows)]

    def _batch(self, rows: Sequence[Row], first: int, last: int) -> bytes:
        messages = []
        for sequence_id, row in enumerate(rows, first):
            own = pb.SingleMessageMetadata(sequence_id=sequence_id)
            self._describe(own, row)
            messages.append(BatchedMessage(own, row.value or b""))
        payload = encode_batch(messages)
        metadata = self._metadata(first, payload, rows[0].entry_fields)
        metadata.num_messages_in_batch = len(rows)
        if last > first:
            metadata.highest_sequence_id = last
        return build_entry(metadata, compress(payload, self._options.compression))

    def _message(self, rows: Sequence[Row], first: int, last: int) -> bytes:
        del last
        (row,) = rows
        payload = row.value or b""
        metadata = self._metadata(first, payload, row.entry_fields)
        self._describe(metadata, row)
        return build_entry(metadata, compress(payload, self._options.compression))

    def _metadata(self, sequence_id: int, payload: bytes, fields: EntryFields) -> pb.MessageMetadata:
        metadata = pb.MessageMetadata(
            producer_name=self._producer_name,
            sequence_id=sequence_id,
            publish_time=self._now_ms() if fields.publish_time is None else fields.publish_time,
            replicate_to=fields.replicate_to,
        )
        if fields.deliver_at_time:
            metadata.deliver_at_time = fields.deliver_at_time
        if fields.schema_version is not None:
            metadata.schema_version = fields.schema_version
        if self._options.compression != pb.NONE:
            metadata.compression = self._options.compression
            metadata.uncompressed_size = len(payload)
        return metadata

    def _describe(self, metadata: pb.SingleMessageMetadata | pb.MessageMetadata, row: Row) -> None:
        """Set what both kinds of metadata have."""
        if row.key is not None:
            metadata.partition_key = key_text(row.key, is_text=row.has_text_key)
            if not row.has_text_key:
                metadata.partition_key_b64_encoded = True
        if row.ordering_key is not None:
            metadata.ordering_key = row.ordering_key
        if row.event_time:
            metadata.event_time = row.event_time
        if row.value is None:
            metadata.null_value = True
        for key, value in row.properties:
            metadata.properties.add(key=key, value=value)


def check_size(entry: Entry, topic: str, size_max: int) -> None:
    """Raise UnwritableRowError if a broker that accepts entries of ``size_max`` bytes refuses ``entry``."""
    if len(entry.data) > size_max:
        what = "a message" if len(entry.rows) == 1 else f"a batch of {len(entry.rows)} messages"
        message = (
            f"{what} for {topic} has {len(entry.data)} bytes; the broker accepts {size_max} (maxMessageSize)"
            "\nhint: raise maxMessageSize of the broker, lower pulsar.producer.batchingMaxBytes, or compress"
        )
        raise UnwritableRowError(message)


def _size_of(row: Row) -> int:
    properties = sum(len(key) + len(value) + _OVERHEAD for key, value in row.properties)
    return len(row.value or b"") + len(row.key or b"") + len(row.ordering_key or b"") + properties + _OVERHEAD
