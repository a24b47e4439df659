"""Plain metadata is valid, has the number of messages, and no other field that affects dispatch."""

from __future__ import annotations

import base64
import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.limits import BATCH_MESSAGES_MAX
from magnetar.wire.entries import entry as wire_entry
from magnetar.wire.entries.plain_metadata import is_plain, messages_of, publish_time_in_plain
from magnetar.wire.proto import pulsar_api_pb2 as pb

names = st.text(max_size=3) | st.text("n", max_size=70)
unsigned = st.integers(0, 2**64 - 1) | st.integers(0, 300)
counts = st.integers(-(2**31), 2**31 - 1) | st.integers(0, 300)

REQUIRED = {"producer_name": names, "sequence_id": unsigned, "publish_time": unsigned}
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "partition_key": names,
    "compression": st.integers(0, 4),
    "uncompressed_size": st.integers(0, 2**32 - 1),
    "num_messages_in_batch": counts,
    "event_time": unsigned,
    "schema_version": st.binary(min_size=8, max_size=8),
    "partition_key_b64_encoded": st.booleans(),
    "highest_sequence_id": unsigned,
}
OTHER: dict[str, st.SearchStrategy[Any]] = {
    "properties": st.just([pb.KeyValue(key="key", value="value")]),
    "replicated_from": names,
    "replicate_to": st.just(["jfk"]),
    "deliver_at_time": st.integers(0, 300),
    "marker_type": st.integers(0, 30),
    "chunk_id": st.integers(0, 3),
    "ordering_key": st.binary(max_size=3),
}


def built(fields: dict[str, Any]) -> pb.MessageMetadata:
    return pb.MessageMetadata(**fields)


metadata = st.fixed_dictionaries(REQUIRED, optional={**PLAIN, **OTHER}).map(built)


def naive_messages(metadata: pb.MessageMetadata) -> int:
    """Return the number of messages, at most the limit."""
    return min(max(1, metadata.num_messages_in_batch), BATCH_MESSAGES_MAX)


def naive_sticky_key(metadata: pb.MessageMetadata) -> bytes:
    """Return the sticky key in Pulsar's order of preference."""
    given_key: str | bytes = metadata.partition_key
    partition_key = given_key if isinstance(given_key, bytes) else given_key.encode()
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if metadata.HasField("partition_key") and metadata.partition_key_b64_encoded:
        try:
            return base64.b64decode(partition_key, validate=True)
        except ValueError:
            return b"NONE_KEY"
    if metadata.HasField("partition_key"):
        return partition_key
    return b"%b-%d" % (metadata.producer_name.encode(), metadata.sequence_id)


@st.composite
def serialized(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(metadata).SerializeToString())
    for _ in range(draw(st.integers(0, 2))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@settings(max_examples=500, deadline=None)
@given(serialized(), st.binary(max_size=3), st.binary(max_size=3))
def test_plain_is_what_protobuf_reads_with_nothing_that_concerns_dispatch(
    data: bytes, before: bytes, behind: bytes
) -> None:
    start, end = len(before), len(before) + len(data)
    plain = is_plain(before + data + behind, start, end)
    if plain is None:
        return
    read = pb.MessageMetadata.FromString(data)
    assert read.IsInitialized()
    assert isinstance(read.producer_name, str)
    assert messages_of(plain[1]) == naive_messages(read)
    assert publish_time_in_plain(before + data + behind, start, end) == read.publish_time
    assert {field.name for field, _ in read.ListFields()} <= {*REQUIRED, *PLAIN}


@given(serialized())
def test_dispatch_knows_what_the_metadata_says(data: bytes) -> None:
    entry = wire_entry.assemble(data, b"payload")
    try:
        read = wire_entry.parse_metadata(entry)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            wire_entry.check(entry)
        with contextlib.suppress(RemoteProtocolError):  # lists in unchecked metadata are skipped
            wire_entry.messages_and_delivery(entry)
            wire_entry.messages_delivery_and_key(entry)
            wire_entry.publish_time_ms(entry)
        with contextlib.suppress(RemoteProtocolError):
            wire_entry.replicate_to(entry)
    else:
        assert wire_entry.publish_time_ms(entry) == read.publish_time
        assert wire_entry.messages_and_delivery(entry) == (naive_messages(read), read.deliver_at_time)
        assert wire_entry.messages_delivery_and_chunk(entry) == (naive_messages(read), read.deliver_at_time, read.uuid)
        assert wire_entry.messages_delivery_and_key(entry)[:2] == wire_entry.messages_and_delivery(entry)
        assert wire_entry.messages_delivery_and_key(entry)[2] == naive_sticky_key(read)
        assert list(wire_entry.replicate_to(entry)) == list(read.replicate_to)
        wire_entry.check(entry)


@pytest.mark.parametrize(
    ("fields", "plain"),
    [
        ({}, True),
        ({"producer_name": "n" * 63}, True),
        ({"producer_name": "n" * 64}, False),
        ({"partition_key": "k" * 63, "event_time": 2**40}, True),
        ({"num_messages_in_batch": 1000, "compression": 1, "uncompressed_size": 2**27, "highest_sequence_id": 9}, True),
        ({"schema_version": b"\x00" * 8}, True),
        ({"sequence_id": 2**63}, False),
        ({"num_messages_in_batch": 2**28}, False),
        ({"deliver_at_time": 1}, False),
        ({"properties": [pb.KeyValue(key="k", value="v")]}, False),
    ],
)
def test_plain_metadata(fields: dict[str, Any], plain: bool) -> None:
    values = {"producer_name": "standalone-0-1", "sequence_id": 7, "publish_time": 1_700_000_000_000, **fields}
    data = pb.MessageMetadata(**values).SerializeToString()
    assert bool(is_plain(data, 0, len(data))) == plain


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({}, b"standalone-0-1-7"),
        ({"partition_key": "order-1"}, b"order-1"),
        ({"partition_key": ""}, b""),
        ({"partition_key": "k" * 64}, b"k" * 64),
        ({"partition_key": "b3JkZXItMQ==", "partition_key_b64_encoded": True}, b"order-1"),
        ({"partition_key": "b3JkZXItMQ==", "partition_key_b64_encoded": False}, b"b3JkZXItMQ=="),
        ({"partition_key": "not base64", "partition_key_b64_encoded": True}, b"NONE_KEY"),
        ({"partition_key": "order-1", "ordering_key": b"\xff"}, b"\xff"),
        ({"ordering_key": b""}, b""),
        ({"partition_key": "order-1", "num_messages_in_batch": 5}, b"order-1"),
    ],
)
def test_sticky_keys(fields: dict[str, Any], key: bytes) -> None:
    values = {"producer_name": "standalone-0-1", "sequence_id": 7, "publish_time": 1_700_000_000_000, **fields}
    entry = wire_entry.build_entry(pb.MessageMetadata(**values), b"payload")
    assert wire_entry.messages_delivery_and_key(entry)[2] == key
