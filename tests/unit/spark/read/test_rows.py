"""Rows of entries, against the messages that a client would decode one by one."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from magnetar.base.errors import RemoteProtocolError, RequestError
from magnetar.base.position import Position
from magnetar.spark import columns
from magnetar.spark.read.batches.messages import Stored, parse
from magnetar.spark.read.batches.rows import Rows
from magnetar.wire.entries.batch import BatchedMessage, compress, decode_batch, encode_batch
from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC = "persistent://public/default/orders"
ARROW = to_arrow_schema(columns.all_columns(), timezone="UTC")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@st.composite
def batched_messages(draw: st.DrawFn) -> BatchedMessage:
    own = pb.SingleMessageMetadata(payload_size=0)
    for key, value in draw(st.lists(st.tuples(texts, texts), max_size=3, unique_by=lambda pair: pair[0])):
        own.properties.add(key=key, value=value)
    for name, values in {
        "partition_key": texts,
        "event_time": st.integers(0, 2**40),
        "ordering_key": st.binary(max_size=5),
        "sequence_id": st.integers(0, 2**63 - 1),
        "null_value": st.booleans(),
        "null_partition_key": st.booleans(),
        "compacted_out": st.booleans(),
    }.items():
        if draw(st.booleans()):
            setattr(own, name, draw(values))
    return BatchedMessage(own, draw(st.binary(max_size=300)))


@st.composite
def entries(draw: st.DrawFn, entry_id: int) -> Stored:
    metadata = pb.MessageMetadata(
        producer_name=draw(texts), sequence_id=draw(st.integers(0, 10**6)), publish_time=draw(st.integers(1, 2**40))
    )
    if draw(st.booleans()):
        metadata.deliver_at_time = draw(st.integers(1, 2**40))
        metadata.replicate_to[:] = draw(st.lists(texts, max_size=2))
        metadata.schema_version = draw(st.binary(max_size=8))
    messages = draw(st.lists(batched_messages(), min_size=1, max_size=5))
    payload = encode_batch(messages)
    metadata.num_messages_in_batch = len(messages)
    compression = draw(st.sampled_from(pb.CompressionType.values()))
    if compression != pb.NONE:
        metadata.compression = compression
        metadata.uncompressed_size = len(payload)
    return stored(metadata, compress(payload, compression), entry_id)


def stored(metadata: pb.MessageMetadata, payload: bytes, entry_id: int = 0, origin: Origin | None = None) -> Stored:
    entry = build_entry(metadata, payload)
    if origin is not None:
        entry = stamp(entry, origin)
    return Stored(Position(7, entry_id), parse_metadata(entry), entry)


def rows(run: Sequence[Stored], partition: int = -1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Rows(TOPIC, partition, parse(run)).batch(ARROW).to_pylist()
    return found


def naive(one: Stored) -> list[dict[str, Any]]:
    found = []
    for index, message in enumerate(decode_batch(one.metadata, payload_of(one.entry))):
        own = message.metadata
        if own.compacted_out:
            continue
        found.append(
            {
                columns.VALUE: None if own.null_value else message.payload,
                columns.KEY: own.partition_key.encode()
                if own.HasField("partition_key") and not own.null_partition_key
                else None,
                columns.TOPIC: TOPIC,
                columns.MESSAGE_ID: message_id(one.position, index, one.metadata.num_messages_in_batch),
                columns.PUBLISH_TIME: datetime.fromtimestamp(one.metadata.publish_time / 1000, UTC),
                columns.EVENT_TIME: datetime.fromtimestamp(own.event_time / 1000, UTC) if own.event_time else None,
                columns.PROPERTIES: [(prop.key, prop.value) for prop in own.properties],
                columns.LEDGER_ID: 7,
                columns.ENTRY_ID: one.position.entry_id,
                columns.BATCH_INDEX: index,
                columns.PRODUCER_NAME: one.metadata.producer_name,
                columns.SEQUENCE_ID: own.sequence_id
                if own.HasField("sequence_id")
                else one.metadata.sequence_id + index,
                columns.HAS_BASE64_KEY: False,
                columns.ORDERING_KEY: own.ordering_key if own.HasField("ordering_key") else None,
                columns.DELIVER_AT_TIME: datetime.fromtimestamp(one.metadata.deliver_at_time / 1000, UTC)
                if one.metadata.deliver_at_time
                else None,
                columns.REPLICATE_TO: list(one.metadata.replicate_to) or None,
                columns.SCHEMA_VERSION: one.metadata.schema_version
                if one.metadata.HasField("schema_version")
                else None,
                columns.ORIGIN_CLUSTER: None,
                columns.ORIGIN_LEDGER_ID: None,
                columns.ORIGIN_ENTRY_ID: None,
            }
        )
    return found


def message_id(position: Position, index: int, size: int) -> bytes:
    return pb.MessageIdData(
        ledgerId=position.ledger_id, entryId=position.entry_id, batch_index=index, batch_size=size
    ).SerializeToString()


@given(st.integers(1, 6).flatmap(lambda count: st.tuples(*map(entries, range(count)))))
def test_rows_are_the_messages_that_a_client_decodes(run: tuple[Stored, ...]) -> None:
    assert rows(run) == [row for one in run for row in naive(one)]


def test_an_entry_without_a_batch_is_one_row() -> None:
    metadata = pb.MessageMetadata(
        producer_name="shop",
        sequence_id=5,
        publish_time=1_000,
        partition_key=base64.b64encode(b"\xff\x00").decode(),
        partition_key_b64_encoded=True,
        ordering_key=b"o",
        event_time=2_000,
    )
    metadata.properties.add(key="colour", value="red")
    (row,) = rows([stored(metadata, b"hello", 3)], partition=2)
    assert row[columns.VALUE] == b"hello"
    assert (row[columns.KEY], row[columns.HAS_BASE64_KEY], row[columns.ORDERING_KEY]) == (b"\xff\x00", True, b"o")
    assert row[columns.PROPERTIES] == [("colour", "red")]
    assert row[columns.EVENT_TIME] == datetime.fromtimestamp(2, UTC)
    assert row[columns.SEQUENCE_ID] == 5
    assert row[columns.BATCH_INDEX] is None
    assert row[columns.MESSAGE_ID] == pb.MessageIdData(ledgerId=7, entryId=3, partition=2).SerializeToString()


def test_a_replicated_entry_has_its_origin_and_only_the_properties_of_its_producer() -> None:
    metadata = pb.MessageMetadata(producer_name="shop", sequence_id=5, publish_time=1_000)
    metadata.properties.add(key="colour", value="red")
    origin = Origin("jfk", Position(90, 4), Position(90, 3))
    (row,) = rows([stored(metadata, b"hello", origin=origin)])
    assert (row[columns.ORIGIN_CLUSTER], row[columns.ORIGIN_LEDGER_ID], row[columns.ORIGIN_ENTRY_ID]) == ("jfk", 90, 4)
    assert row[columns.PROPERTIES] == [("colour", "red")]


def test_a_message_with_fields_in_another_order_is_read() -> None:
    swapped = b"\x40\x09\x18\x05"  # sequence id before payload size
    payload = len(swapped).to_bytes(4, "big") + swapped + b"hello"
    metadata = pb.MessageMetadata(producer_name="shop", sequence_id=5, publish_time=1_000, num_messages_in_batch=1)
    (row,) = rows([stored(metadata, payload)])
    assert (row[columns.VALUE], row[columns.SEQUENCE_ID]) == (b"hello", 9)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",
        b"\x00\x00\x00\x02\x18\x05",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02\x18\x00more",
        b"\x00\x00\x00\x03\x12\xff\xff",
    ],
)
def test_an_entry_that_contradicts_its_metadata_is_named(payload: bytes) -> None:
    metadata = pb.MessageMetadata(producer_name="shop", sequence_id=5, publish_time=1_000, num_messages_in_batch=1)
    good = stored(pb.MessageMetadata(producer_name="shop", sequence_id=4, publish_time=1_000), b"good", 1)
    with pytest.raises(RemoteProtocolError, match="entry 7:2: "):
        rows([good, stored(metadata, payload, 2)])


def test_an_encrypted_entry_is_refused() -> None:
    metadata = pb.MessageMetadata(producer_name="shop", sequence_id=5, publish_time=1_000)
    metadata.encryption_keys.add(key="k", value=b"v")
    with pytest.raises(RequestError, match=r"entry 7:0: .*encrypted\nhint: unit=entry"):
        rows([stored(metadata, b"secret")])


def test_only_the_columns_of_the_schema_are_built() -> None:
    metadata = pb.MessageMetadata(producer_name="shop", sequence_id=5, publish_time=1_000)
    schema = ARROW.field(columns.SEQUENCE_ID)
    batch = Rows(TOPIC, -1, parse([stored(metadata, b"hello")])).batch(pa.schema([schema]))
    assert batch.to_pylist() == [{columns.SEQUENCE_ID: 5}]
