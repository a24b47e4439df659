"""Rows of stored entries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyspark.sql.pandas.types import to_arrow_schema

from magnetar.base.position import Position
from magnetar.spark import columns
from magnetar.spark.read.batches.entry_rows import entry_rows
from magnetar.spark.read.batches.messages import Stored
from magnetar.wire.entries.entry import build_entry, parse_metadata
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.proto import pulsar_api_pb2 as pb

ARROW = to_arrow_schema(columns.all_columns(columns.Unit.ENTRY), timezone="UTC")
TOPIC = "persistent://public/default/orders-partition-3"


def row(entry: bytes) -> dict[str, Any]:
    (found,) = entry_rows(TOPIC, 3, [Stored(Position(7, 4), parse_metadata(entry), entry)], ARROW).to_pylist()
    return dict(found)


def test_a_plain_entry_has_no_optional_values() -> None:
    entry = build_entry(pb.MessageMetadata(producer_name="shop", sequence_id=5, publish_time=1_500), b"hello")
    assert row(entry) == {
        columns.VALUE: entry,
        columns.TOPIC: TOPIC,
        columns.MESSAGE_ID: pb.MessageIdData(ledgerId=7, entryId=4, partition=3).SerializeToString(),
        columns.PUBLISH_TIME: datetime.fromtimestamp(1.5, UTC),
        columns.PROPERTIES: [],
        columns.LEDGER_ID: 7,
        columns.ENTRY_ID: 4,
        columns.PRODUCER_NAME: "shop",
        columns.SEQUENCE_ID: 5,
        columns.MESSAGES: 1,
        columns.IS_BATCH: False,
        columns.ENTRY_SIZE: len(entry),
        columns.UNCOMPRESSED_SIZE: None,
        columns.COMPRESSION: "NONE",
        columns.IS_ENCRYPTED: False,
        columns.SCHEMA_VERSION: None,
        columns.CHUNK_UUID: None,
        columns.CHUNK_ID: None,
        columns.CHUNKS: None,
        columns.ORIGIN_CLUSTER: None,
        columns.ORIGIN_LEDGER_ID: None,
        columns.ORIGIN_ENTRY_ID: None,
    }


def test_an_encrypted_chunk_from_another_cluster_is_described_and_not_read() -> None:
    metadata = pb.MessageMetadata(
        producer_name="shop",
        sequence_id=5,
        publish_time=1_500,
        compression=pb.LZ4,
        uncompressed_size=9_000,
        encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")],
        schema_version=b"\x00\x01",
        uuid="shop-5",
        chunk_id=0,
        num_chunks_from_msg=3,
        properties=[pb.KeyValue(key="colour", value="red")],
    )
    entry = stamp(build_entry(metadata, b"\xffnot LZ4"), Origin("jfk", Position(90, 4)), b"\x00\x01")
    found = row(entry)
    assert found[columns.VALUE] == entry
    described = [columns.COMPRESSION, columns.UNCOMPRESSED_SIZE, columns.IS_ENCRYPTED, columns.SCHEMA_VERSION]
    assert [found[name] for name in described] == ["LZ4", 9_000, True, b"\x00\x01"]
    assert [found[name] for name in (columns.CHUNK_UUID, columns.CHUNK_ID, columns.CHUNKS)] == ["shop-5", 0, 3]
    assert found[columns.PROPERTIES] == [("colour", "red")]
    origin = [columns.ORIGIN_CLUSTER, columns.ORIGIN_LEDGER_ID, columns.ORIGIN_ENTRY_ID]
    assert [found[name] for name in origin] == ["jfk", 90, 4]


def test_a_query_without_columns_has_rows_without_columns() -> None:
    assert entry_rows(TOPIC, 3, [], ARROW.empty_table().select([]).schema).num_columns == 0
