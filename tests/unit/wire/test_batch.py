"""Batches and their compression."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import RemoteProtocolError, RequestError
from magnetar.base.limits import OPENED_BATCH_MESSAGES_MAX
from magnetar.wire.entries.batch import (
    BatchedMessage,
    compress,
    decode_batch,
    decompress,
    encode_batch,
    last_sequence_id,
    members_of,
)
from magnetar.wire.proto import pulsar_api_pb2 as pb

COMPRESSIONS = [pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY]

batches = st.lists(
    st.builds(
        lambda key, sequence_id, payload: BatchedMessage(
            pb.SingleMessageMetadata(partition_key=key, sequence_id=sequence_id, payload_size=len(payload)),
            payload,
        ),
        st.none() | st.text(max_size=5),
        st.none() | st.integers(0, 2**64 - 1),
        st.binary(max_size=300),
    ),
    max_size=5,
)


def metadata_of(
    messages: list[BatchedMessage], compression: pb.CompressionType.ValueType = pb.NONE
) -> pb.MessageMetadata:
    return pb.MessageMetadata(
        producer_name="p",
        sequence_id=1,
        publish_time=1,
        compression=compression,
        uncompressed_size=len(encode_batch(messages)),
        num_messages_in_batch=len(messages),
    )


@given(batches, st.sampled_from(COMPRESSIONS))
def test_a_batch_reads_back(messages: list[BatchedMessage], compression: pb.CompressionType.ValueType) -> None:
    payload = compress(encode_batch(messages), compression)
    assert decode_batch(metadata_of(messages, compression), memoryview(payload)) == messages


@given(batches.filter(len), st.sampled_from(COMPRESSIONS))
def test_the_last_sequence_id_is_what_the_last_message_bears(
    messages: list[BatchedMessage], compression: pb.CompressionType.ValueType
) -> None:
    last = messages[-1].metadata
    expected = last.sequence_id if last.HasField("sequence_id") else None
    payload = compress(encode_batch(messages), compression)
    assert last_sequence_id(metadata_of(messages, compression), payload) == expected


@given(batches)
def test_the_members_of_a_batch_are_its_messages(messages: list[BatchedMessage]) -> None:
    data = encode_batch(messages)
    members = list(members_of(metadata_of(messages), data))
    assert [data[start:end] for _, start, end in members] == [encode_batch([each]) for each in messages]
    own = [each.metadata.sequence_id if each.metadata.HasField("sequence_id") else None for each in messages]
    assert [sequence_id for sequence_id, _, _ in members] == own


def test_bytes_behind_the_last_member_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="batch of 0 messages ends at 0 of 1 bytes"):
        list(members_of(metadata_of([]), b"x"))


@given(batches.filter(len), st.data())
def test_the_last_sequence_id_of_a_damaged_batch_is_any_or_a_protocol_error(
    messages: list[BatchedMessage], data: st.DataObject
) -> None:
    payload = bytearray(encode_batch(messages))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(payload)))
    with contextlib.suppress(RemoteProtocolError):
        last_sequence_id(metadata_of(messages), bytes(payload[:cut]))


def test_a_batch_that_claims_more_messages_than_it_has_is_refused() -> None:
    backwards = pb.SingleMessageMetadata(payload_size=-9).SerializeToString()
    for serialized in (backwards, b"\x40\x00" + backwards):
        payload = len(serialized).to_bytes(4, "big") + serialized
        with pytest.raises(RemoteProtocolError):
            last_sequence_id(pb.MessageMetadata(num_messages_in_batch=OPENED_BATCH_MESSAGES_MAX), payload)
        with pytest.raises(RequestError, match=f"batches of up to {OPENED_BATCH_MESSAGES_MAX} are opened"):
            last_sequence_id(pb.MessageMetadata(num_messages_in_batch=OPENED_BATCH_MESSAGES_MAX + 1), payload)


def test_the_payload_size_is_written_anew() -> None:
    encoded = encode_batch([BatchedMessage(pb.SingleMessageMetadata(payload_size=99), b"three")])
    assert encoded == b"\x00\x00\x00\x02\x18\x05three"


@given(batches, st.sampled_from(COMPRESSIONS), st.data())
def test_a_damaged_batch_is_messages_or_a_protocol_error(
    messages: list[BatchedMessage], compression: pb.CompressionType.ValueType, data: st.DataObject
) -> None:
    payload = bytearray(compress(encode_batch(messages), compression))
    if payload:
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(payload)))
    with contextlib.suppress(RemoteProtocolError):
        decode_batch(metadata_of(messages, compression), bytes(payload[:cut]))


@pytest.mark.parametrize("compression", COMPRESSIONS[1:])
@pytest.mark.parametrize("claimed", [0, 999, 1001])
def test_the_size_must_be_what_the_metadata_says(compression: pb.CompressionType.ValueType, claimed: int) -> None:
    metadata = pb.MessageMetadata(compression=compression, uncompressed_size=claimed)
    with pytest.raises(RemoteProtocolError, match=r"payload (cannot be decompressed|decompresses to)"):
        decompress(metadata, compress(bytes(1000), compression))


def test_a_payload_that_would_be_too_large_is_not_decompressed() -> None:
    metadata = pb.MessageMetadata(compression=pb.ZLIB, uncompressed_size=1001)
    with pytest.raises(RemoteProtocolError, match="1001 bytes before compression exceeds the limit of 1000"):
        decompress(metadata, b"", size_max=1000)


def test_an_encrypted_payload_stays_closed() -> None:
    metadata = pb.MessageMetadata(encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")])
    with pytest.raises(RequestError, match="encrypted"):
        decompress(metadata, b"secret")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_number_of_messages_must_be_what_the_metadata_says(count: int) -> None:
    messages = [BatchedMessage(pb.SingleMessageMetadata(payload_size=1), b"x")] * 2
    metadata = metadata_of(messages)
    metadata.num_messages_in_batch = count
    with pytest.raises(RemoteProtocolError, match="batch"):
        decode_batch(metadata, encode_batch(messages))
