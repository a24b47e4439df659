"""Rows of parsed messages: an Arrow record batch with the requested columns."""

from __future__ import annotations

import base64
import binascii
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.position import Position
from magnetar.spark import columns
from magnetar.spark.read.batches import tags
from magnetar.spark.read.batches.arrays import cut, nullable, repeated
from magnetar.spark.read.batches.properties import properties_of
from magnetar.wire.entries.origin import origin_of
from magnetar.wire.message_id import message_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from magnetar.spark.read.batches.messages import Messages, Stored
    from magnetar.spark.read.decoding.values import Decoder
    from magnetar.wire.entries.origin import Origin

_MICROSECONDS = 1000
"""Microseconds in a millisecond."""

TIME = pa.timestamp("us", "UTC")

_NO_POSITION = Position(0, 0)
_POSITION_LENGTH = len(message_id(_NO_POSITION).SerializeToString())


class Rows:
    """Columns of the messages of one topic. Each is built when it is asked for."""

    def __init__(self, topic: str, partition: int, messages: Messages, decoder: Decoder | None = None) -> None:
        """Create the rows of ``messages``; ``partition`` is -1 for a topic that is not partitioned.

        With a ``decoder``, the values are decoded, otherwise they are bytes.
        """
        self._decoder = decoder
        self._topic = topic
        self._partition = partition
        self._messages = messages
        self._entries = messages.entries
        self._of = messages.places.batches

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the columns of ``schema``; messages that compaction has removed from their batches give no row."""
        if not schema.names:
            return pa.RecordBatch.from_pydict({}, schema)
        arrays = [
            self._decoded(field.type) if field.name == columns.VALUE and self._decoder else _BUILDERS[field.name](self)
            for field in schema
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
        removed = self._messages.fields.flag(tags.COMPACTED_OUT)
        return rows.filter(pa.array(~removed)) if removed.any() else rows

    def value(self) -> pa.Array:
        """Return the payloads; null for a message whose value is null."""
        places = self._messages.places
        values = cut(self._messages.octets, places.metadata_ends, places.payload_ends, pa.binary())
        return nullable(values, ~self._messages.fields.flag(tags.NULL_VALUE))

    def _decoded(self, kind: pa.DataType) -> pa.Array:
        """Return the decoded values; raises RemoteProtocolError with the position of the entry of a wrong one."""
        assert self._decoder is not None
        removed = self._messages.fields.flag(tags.COMPACTED_OUT)
        payloads = nullable(self.value(), ~removed).to_pylist()
        has_keys = self._decoder.has_keys
        keys = nullable(self.key(), ~removed).to_pylist() if has_keys else [None] * len(payloads)
        values = []
        for number, payload, key in zip(self._of.tolist(), payloads, keys, strict=True):
            stored = self._entries[number]
            try:
                values.append(self._decoder.value(payload, stored.metadata.schema_version, key))
            except RemoteProtocolError as error:
                message = f"entry {stored.position}: {error}"
                raise RemoteProtocolError(message) from error
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            message = f"a value after entry {self._entries[0].position} does not match the schema: {error}"
            raise RemoteProtocolError(message) from error

    def key(self) -> pa.Array:
        """Return the keys, decoded if the producer's client encoded them in base64; null for none."""
        fields = self._messages.fields
        keys = cut(self._messages.octets, fields.key.starts, fields.key.ends, pa.binary())
        encoded = fields.flag(tags.KEY_IS_BASE64)
        if encoded.any():
            decoded = [
                _decoded(key) if is_encoded else key for key, is_encoded in zip(keys.to_pylist(), encoded, strict=True)
            ]
            keys = pa.array(decoded, pa.binary())
        return nullable(keys, fields.key.present & ~fields.flag(tags.NULL_KEY))

    def topic(self) -> pa.Array:
        """Return the name of the topic, or of the partition."""
        return pa.repeat(self._topic, len(self._of))

    def message_id(self) -> pa.Array:
        """Return ``MessageIdData``, as ``MessageId.toByteArray`` of Pulsar's clients."""
        entries = [self._id_of(stored) for stored in self._entries]
        ids = repeated(entries, pa.binary(), self._of)
        batched = self._messages.batched
        if not batched.any():
            return ids
        sizes = [message_id(_NO_POSITION, batch_size=stored.metadata.num_messages_in_batch) for stored in self._entries]
        places = [
            message_id(_NO_POSITION, batch_index=index) for index in range(int(self._messages.places.indexes.max()) + 1)
        ]
        index = pa.array([place.SerializePartialToString()[_POSITION_LENGTH:] for place in places], pa.binary())
        size = repeated([size.SerializePartialToString()[_POSITION_LENGTH:] for size in sizes], pa.binary(), self._of)
        full = pc.binary_join_element_wise(ids, index.take(pa.array(self._messages.places.indexes)), size, b"")
        return full if batched.all() else pc.if_else(pa.array(batched[self._of]), full, ids)

    def _id_of(self, stored: Stored) -> bytes:
        """Return the id of an entry; that of a message in chunks names the first chunk, too."""
        entry = message_id(stored.position, partition=self._partition)
        if stored.first_chunk is not None:
            entry.first_chunk_message_id.CopyFrom(message_id(stored.first_chunk, partition=self._partition))
        return entry.SerializeToString()

    def publish_time(self) -> pa.Array:
        """Return the producers' publish times."""
        times = np.array([stored.metadata.publish_time for stored in self._entries], np.int64)
        return _times(times[self._of])

    def event_time(self) -> pa.Array:
        """Return the event times; null for none."""
        times = self._messages.fields.numbers[tags.EVENT_TIME].astype(np.int64)
        return nullable(_times(times), times != 0)

    def properties(self) -> pa.Array:
        """Return the properties that the producer set."""
        return properties_of(self._messages.octets, self._messages.fields.properties)

    def ledger_id(self) -> pa.Array:
        """Return the ledger ids of the entries."""
        return self._of_entries([stored.position.ledger_id for stored in self._entries])

    def entry_id(self) -> pa.Array:
        """Return the entry ids."""
        return self._of_entries([stored.position.entry_id for stored in self._entries])

    def batch_index(self) -> pa.Array:
        """Return the indexes in the batches; null for a message that is not in a batch."""
        indexes = pa.array(self._messages.places.indexes)
        return nullable(indexes, self._messages.batched[self._of])

    def producer_name(self) -> pa.Array:
        """Return the names of the producers."""
        return repeated([stored.metadata.producer_name for stored in self._entries], pa.string(), self._of)

    def sequence_id(self) -> pa.Array:
        """Return the sequence ids: that of the message, or that of its entry and the index in the batch."""
        firsts = np.array([stored.metadata.sequence_id for stored in self._entries], np.uint64)
        fields = self._messages.fields
        counted = firsts[self._of] + self._messages.places.indexes.astype(np.uint64)
        return pa.array(np.where(fields.has_sequence_id, fields.numbers[tags.SEQUENCE_ID], counted).astype(np.int64))

    def has_base64_key(self) -> pa.Array:
        """Return whether the producer's client encoded the keys in base64, as it does with bytes."""
        return pa.array(self._messages.fields.flag(tags.KEY_IS_BASE64))

    def ordering_key(self) -> pa.Array:
        """Return the ordering keys; null for none."""
        spans = self._messages.fields.ordering_key
        if not spans.present.any():
            return pa.nulls(len(self._of), pa.binary())
        return nullable(cut(self._messages.octets, spans.starts, spans.ends, pa.binary()), spans.present)

    def deliver_at_time(self) -> pa.Array:
        """Return the times before which consumers do not get the messages; null for none."""
        times = np.array([stored.metadata.deliver_at_time for stored in self._entries], np.int64)
        if not times.any():
            return pa.nulls(len(self._of), TIME)
        return nullable(_times(times[self._of]), times[self._of] != 0)

    def replicate_to(self) -> pa.Array:
        """Return the only clusters to which the messages are replicated; null for no restriction."""
        clusters = [list(stored.metadata.replicate_to) or None for stored in self._entries]
        return pa.array(clusters, pa.list_(pa.string())).take(pa.array(self._of))

    def schema_version(self) -> pa.Array:
        """Return the versions of the schema that the producer used; null for none."""
        versions = [
            stored.metadata.schema_version if stored.metadata.HasField("schema_version") else None
            for stored in self._entries
        ]
        return repeated(versions, pa.binary(), self._of)

    def origin_cluster(self) -> pa.Array:
        """Return the clusters from which messages were replicated; null for a message that was published here."""
        clusters = [origin.cluster if origin else None for origin in self._origins]
        return repeated(clusters, pa.string(), self._of)

    def origin_ledger_id(self) -> pa.Array:
        """Return the ledger ids at the origins; null for a message that was published here."""
        return self._of_entries([origin.position.ledger_id if origin else None for origin in self._origins])

    def origin_entry_id(self) -> pa.Array:
        """Return the entry ids at the origins; null for a message that was published here."""
        return self._of_entries([origin.position.entry_id if origin else None for origin in self._origins])

    @cached_property
    def _origins(self) -> list[Origin | None]:
        return [origin_of(stored.metadata) for stored in self._entries]

    def _of_entries(self, values: list[int | None] | list[int]) -> pa.Array:
        return pa.array(values, pa.int64()).take(pa.array(self._of))


_BUILDERS: Mapping[str, Callable[[Rows], pa.Array]] = {
    columns.VALUE: Rows.value,
    columns.KEY: Rows.key,
    columns.TOPIC: Rows.topic,
    columns.MESSAGE_ID: Rows.message_id,
    columns.PUBLISH_TIME: Rows.publish_time,
    columns.EVENT_TIME: Rows.event_time,
    columns.PROPERTIES: Rows.properties,
    columns.LEDGER_ID: Rows.ledger_id,
    columns.ENTRY_ID: Rows.entry_id,
    columns.BATCH_INDEX: Rows.batch_index,
    columns.PRODUCER_NAME: Rows.producer_name,
    columns.SEQUENCE_ID: Rows.sequence_id,
    columns.HAS_BASE64_KEY: Rows.has_base64_key,
    columns.ORDERING_KEY: Rows.ordering_key,
    columns.DELIVER_AT_TIME: Rows.deliver_at_time,
    columns.REPLICATE_TO: Rows.replicate_to,
    columns.SCHEMA_VERSION: Rows.schema_version,
    columns.ORIGIN_CLUSTER: Rows.origin_cluster,
    columns.ORIGIN_LEDGER_ID: Rows.origin_ledger_id,
    columns.ORIGIN_ENTRY_ID: Rows.origin_entry_id,
}


def _times(milliseconds: NDArray[np.int64]) -> pa.Array:
    return pa.array(milliseconds * _MICROSECONDS, TIME)


def _decoded(key: bytes) -> bytes:
    """Decode a key; one that is not base64 is returned unchanged."""
    try:
        return base64.b64decode(key, validate=True)
    except binascii.Error:
        return key
