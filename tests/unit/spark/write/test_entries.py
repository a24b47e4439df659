"""Entries of rows."""

from __future__ import annotations

import base64

import pytest

from magnetar.spark.write.entries import EntryBuilder, check_size
from magnetar.spark.write.options import WriteOptions
from magnetar.spark.write.rows import EntryFields, Row, UnwritableRowError
from magnetar.wire.entries.batch import decode_batch, decompress
from magnetar.wire.entries.entry import parse_metadata, payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

NOW_MS = 1_700_000_000_000


def builder(**options: str) -> EntryBuilder:
    given = {f"pulsar.producer.{name}": value for name, value in options.items()}
    parsed = WriteOptions.of({"service.url": "pulsar://a", "admin.url": "http://a", "topic": "t", **given})
    return EntryBuilder(parsed, "p", lambda: NOW_MS)


def row(value: bytes | None, key: bytes | None = None) -> Row:
    return Row(None, value, key, 0, ())


def test_sequence_ids_are_consecutive_across_batches() -> None:
    made = builder(batchingMaxMessages="2")
    made.start(100)
    entries = [entry for number in range(5) for entry in made.add(row(b"%d" % number))] + made.finish()
    assert [(entry.sequence_id, entry.highest_sequence_id) for entry in entries] == [(100, 101), (102, 103), (104, 104)]
    for entry in entries:
        metadata = parse_metadata(entry.data)
        assert (metadata.producer_name, metadata.publish_time) == ("p", NOW_MS)
        assert metadata.sequence_id == entry.sequence_id
        messages = decode_batch(metadata, payload_of(entry.data))
        assert [each.metadata.sequence_id for each in messages] == [
            *range(entry.sequence_id, entry.highest_sequence_id + 1)
        ]
        assert [each.payload for each in messages] == [each.value for each in entry.rows]
    assert made.finish() == []


def test_a_batch_ends_at_its_bytes_and_a_larger_message_is_alone() -> None:
    made = builder(batchingMaxBytes="1000")
    sizes = (400, 400, 400, 5_000, 10)
    entries = [entry for size in sizes for entry in made.add(row(bytes(size)))] + made.finish()
    assert [[len(each.value or b"") for each in entry.rows] for entry in entries] == [[400, 400], [400], [5_000], [10]]


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"])
@pytest.mark.parametrize("batching", ["true", "false"])
def test_messages_are_compressed(compression: str, batching: str) -> None:
    made = builder(compressionType=compression, batchingEnabled=batching)
    (entry,) = made.add(row(bytes(1000))) + made.finish()
    metadata = parse_metadata(entry.data)
    assert metadata.compression == pb.CompressionType.Value(compression)
    assert bytes(1000) in bytes(decompress(metadata, payload_of(entry.data)))
    assert (len(entry.data) < 200) == (compression != "NONE")


@pytest.mark.parametrize("batching", ["true", "false"])
def test_keys_times_properties_and_null_values_are_in_the_metadata(batching: str) -> None:
    made = builder(batchingEnabled=batching)
    full = Row(None, None, b"k", 7, [("a", "1")], has_text_key=True, ordering_key=b"o")
    (entry,) = made.add(full) + made.finish()
    metadata = parse_metadata(entry.data)
    own = decode_batch(metadata, payload_of(entry.data))[0].metadata if batching == "true" else metadata
    assert (own.partition_key, own.partition_key_b64_encoded, own.event_time, own.null_value) == ("k", False, 7, True)
    assert own.ordering_key == b"o"
    assert [(pair.key, pair.value) for pair in own.properties] == [("a", "1")]


def test_messages_of_one_entry_have_the_same_times_and_targets() -> None:
    made = builder()
    fields = [EntryFields(5), EntryFields(5), EntryFields(6, 90, ("jfk",)), EntryFields(6, schema_version=b"v")]
    rows = [Row(None, b"v", None, 0, (), entry_fields=each) for each in fields]
    entries = [entry for each in rows for entry in made.add(each)] + made.finish()
    assert [len(entry.rows) for entry in entries] == [2, 1, 1]
    found = [parse_metadata(entry.data) for entry in entries]
    assert [metadata.publish_time for metadata in found] == [5, 6, 6]
    assert [metadata.HasField("deliver_at_time") for metadata in found] == [False, True, False]
    assert [metadata.schema_version for metadata in found] == [b"", b"", b"v"]
    assert (found[1].deliver_at_time, list(found[1].replicate_to)) == (90, ["jfk"])


def test_keys_of_bytes_are_encoded() -> None:
    (entry,) = builder(batchingEnabled="false").add(row(b"", b"\xff\x00"))
    metadata = parse_metadata(entry.data)
    assert base64.b64decode(metadata.partition_key) == b"\xff\x00"
    assert metadata.partition_key_b64_encoded


def test_an_entry_that_a_broker_would_refuse_is_named() -> None:
    made = builder()
    made.add(row(bytes(2_000)))
    (entry,) = made.finish()
    check_size(entry, "t", len(entry.data))
    with pytest.raises(UnwritableRowError, match=r"a message for t has \d+ bytes; the broker accepts 2000"):
        check_size(entry, "t", 2_000)
