"""The property of a message that states where it was published."""

from __future__ import annotations

import pytest

from magnetar.base.limits import MAX_MESSAGE_SIZE
from magnetar.base.position import Position
from magnetar.wire.entries.batch import BatchedMessage, compress, decode_batch, encode_batch
from magnetar.wire.entries.entry import build_entry, checksum_matches, metadata_bytes, parse_metadata, payload_of
from magnetar.wire.entries.origin import SOURCE_POSITION, Origin, stamp
from magnetar.wire.entries.original_position import ORIGINAL_POSITION, OriginalPositions
from magnetar.wire.proto import pulsar_api_pb2 as pb

HERE = OriginalPositions("jfk", MAX_MESSAGE_SIZE)
PLACE = Position(9, 3)
FROM_EWR = Origin("ewr", Position(7, 8))
NAMED_SO = pb.KeyValue(key=ORIGINAL_POSITION, value="of the producer")
COLOR = pb.KeyValue(key="color", value="blue")


def metadata(**fields: object) -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, **fields)  # type: ignore[arg-type]


def values(properties: object) -> dict[str, str]:
    return {each.key: each.value for each in properties}  # type: ignore[attr-defined]


def batch(compression: pb.CompressionType.ValueType = pb.NONE, count: int = 3, **fields: object) -> bytes:
    own = pb.SingleMessageMetadata(properties=[COLOR, NAMED_SO], payload_size=0)
    data = encode_batch([BatchedMessage(own, b"payload %d" % n) for n in range(count)])
    head = metadata(num_messages_in_batch=count, compression=compression, uncompressed_size=len(data), **fields)
    return build_entry(head, compress(data, compression))


def test_a_message_published_here_has_its_own_position() -> None:
    entry = build_entry(metadata(properties=[COLOR]), b"payload")
    changed = HERE.added(PLACE, entry)
    assert checksum_matches(changed)
    assert values(parse_metadata(changed).properties) == {"color": "blue", ORIGINAL_POSITION: "jfk:9:3"}
    assert metadata_bytes(changed).startswith(metadata_bytes(entry))
    assert bytes(payload_of(changed)) == b"payload"


def test_a_replicated_message_has_that_of_its_origin() -> None:
    changed = HERE.added(PLACE, stamp(build_entry(metadata(properties=[NAMED_SO]), b"payload"), FROM_EWR))
    own = parse_metadata(changed).properties
    assert [(each.key, each.value) for each in own] == [(SOURCE_POSITION, "7:8"), (ORIGINAL_POSITION, "ewr:7:8")]


@pytest.mark.parametrize("compression", [pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY])
def test_each_message_of_a_batch_has_the_property(compression: pb.CompressionType.ValueType) -> None:
    changed = HERE.added(PLACE, stamp(batch(compression), FROM_EWR))
    assert checksum_matches(changed)
    head = parse_metadata(changed)
    messages = decode_batch(head, payload_of(changed))
    assert [each.payload for each in messages] == [b"payload 0", b"payload 1", b"payload 2"]
    expected = {"color": "blue", ORIGINAL_POSITION: "ewr:7:8"}
    assert [values(each.metadata.properties) for each in messages] == [expected] * 3
    assert [len(each.metadata.properties) for each in messages] == [2] * 3
    assert values(head.properties)[ORIGINAL_POSITION] == "ewr:7:8"


@pytest.mark.parametrize(
    "entry",
    [
        batch(encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")]),
        build_entry(metadata(num_messages_in_batch=3), b"no batch"),
        batch(count=10_001),
        build_entry(metadata(chunk_id=0, num_chunks_from_msg=2, uuid="u"), b"a chunk"),
    ],
)
def test_the_payload_of_any_other_entry_is_not_changed(entry: bytes) -> None:
    changed = HERE.added(PLACE, entry)
    assert checksum_matches(changed)
    assert payload_of(changed) == payload_of(entry)
    assert values(parse_metadata(changed).properties)[ORIGINAL_POSITION] == "jfk:9:3"


def test_a_batch_that_would_become_too_large_stays_closed() -> None:
    entry = batch()
    opened = payload_of(HERE.added(PLACE, entry))
    assert payload_of(OriginalPositions("jfk", len(opened)).added(PLACE, entry)) == opened
    assert payload_of(OriginalPositions("jfk", len(opened) - 1).added(PLACE, entry)) == payload_of(entry)


@pytest.mark.parametrize(
    "entry",
    [
        build_entry(metadata(), b"payload")[:-1] + b"!",
        build_entry(metadata(replicated_from="ewr"), b"without a position"),
        build_entry(metadata(properties=[pb.KeyValue(key="k", value="v" * 8 * 1024)]), b"x" * 1024),
        b"\x0e\x01",
    ],
)
def test_an_entry_that_cannot_have_it_is_not_changed(entry: bytes) -> None:
    assert OriginalPositions("jfk", 1024).added(PLACE, entry) == entry
