"""Entries: metadata, payload and checksum."""

from __future__ import annotations

import contextlib

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import ChecksumMismatchError, RemoteProtocolError
from magnetar.wire.entries import entry as wire_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb

METADATA = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1_700_000_000_000)
BUILT = wire_entry.build_entry(METADATA, b"payload")
CHECKSUM_START, CHECKSUM_END = 2, 6


def test_a_built_entry_reads_back() -> None:
    entry = wire_entry.build_entry(METADATA, b"payload")
    assert wire_entry.checksum_matches(entry)
    assert wire_entry.parse_metadata(entry) == METADATA
    assert bytes(wire_entry.payload_of(entry)) == b"payload"
    assert wire_entry.publish_time_ms(entry) == 1_700_000_000_000
    assert wire_entry.messages_in(entry) == 1


def test_the_checksum_is_crc32c() -> None:
    # The check value of CRC-32C in the catalogue of CRCs: "123456789" has 0xE3069283.
    assert google_crc32c.value(b"123456789") == 0xE3069283
    entry = wire_entry.build_entry(METADATA, b"payload")
    assert entry[CHECKSUM_START:CHECKSUM_END] == google_crc32c.value(entry[CHECKSUM_END:]).to_bytes(4, "big")


@given(st.data())
def test_a_changed_byte_behind_the_magic_shows(data: st.DataObject) -> None:
    entry = bytearray(wire_entry.build_entry(METADATA, b"payload"))
    index = data.draw(st.integers(CHECKSUM_START, len(entry) - 1))
    entry[index] ^= data.draw(st.integers(1, 255))
    assert not wire_entry.checksum_matches(bytes(entry))


def test_an_entry_without_checksum_is_read_too() -> None:
    entry = wire_entry.build_entry(METADATA, b"payload")[CHECKSUM_END:]
    assert wire_entry.checksum_matches(entry)
    assert wire_entry.parse_metadata(entry) == METADATA
    assert bytes(wire_entry.payload_of(entry)) == b"payload"


@pytest.mark.parametrize(("in_batch", "messages"), [(0, 1), (-5, 1), (1, 1), (7, 7)])
def test_messages_in_a_batch(in_batch: int, messages: int) -> None:
    metadata = pb.MessageMetadata()
    metadata.CopyFrom(METADATA)
    metadata.num_messages_in_batch = in_batch
    assert wire_entry.messages_in(wire_entry.build_entry(metadata, b"")) == messages


@given(st.binary(max_size=60))
def test_any_bytes_are_an_entry_or_a_protocol_error(data: bytes) -> None:
    wire_entry.checksum_matches(data)
    for read in (wire_entry.parse_metadata, wire_entry.payload_of):
        with contextlib.suppress(RemoteProtocolError):
            read(data)


@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda tail: BUILT[: len(BUILT) - len(tail)] + tail))
def test_one_check_finds_what_each_reader_would(data: bytes) -> None:
    try:
        wire_entry.check(data)
    except ChecksumMismatchError:
        assert not wire_entry.checksum_matches(data)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            wire_entry.parse_metadata(data)
    else:
        assert wire_entry.checksum_matches(data)
        wire_entry.parse_metadata(data)


@given(
    st.builds(
        lambda properties, **fields: pb.MessageMetadata(
            producer_name="p",
            properties=[pb.KeyValue(key=key, value=value) for key, value in properties],
            **{name: value for name, value in fields.items() if value is not None},
        ),
        st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3))),
        sequence_id=st.integers(0, 2**64 - 1),
        publish_time=st.integers(0, 2**64 - 1),
        partition_key=st.none() | st.text(max_size=3),
        ordering_key=st.none() | st.binary(max_size=3),
        num_messages_in_batch=st.none() | st.integers(-5, 5),
        deliver_at_time=st.none() | st.integers(-5, 5),
        chunk_id=st.none() | st.integers(-5, 5),
        num_chunks_from_msg=st.none() | st.integers(-5, 5),
    )
)
def test_metadata_without_lists_have_the_same_values(metadata: pb.MessageMetadata) -> None:
    entry = wire_entry.build_entry(metadata, b"payload")
    parsed = wire_entry.parse_without_lists(entry)
    stated = {field.name: value for field, value in metadata.ListFields() if field.name != "properties"}
    assert {field.name: value for field, value in parsed.ListFields()} == stated
    for field in parsed.DESCRIPTOR.fields:
        assert getattr(parsed, field.name) == getattr(metadata, field.name), field.name
    assert wire_entry.metadata_size(entry) == metadata.ByteSize()


def test_metadata_that_claims_to_go_on_behind_its_entry_is_refused() -> None:
    checksummed = (len(BUILT) + 1).to_bytes(4, "big") + METADATA.SerializeToString()
    entry = b"\x0e\x01" + google_crc32c.value(checksummed).to_bytes(4, "big") + checksummed
    with pytest.raises(RemoteProtocolError, match="exceeds its entry"):
        wire_entry.check(entry)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (b"", "no metadata size"),
        (b"\x0e\x01\x00\x00\x00\x00\x00", "no metadata size"),
        (b"\x00\x00\x00\x05abcd", "exceeds its entry"),
        (b"\x00\x00\x00\x02\xff\xff", "cannot be parsed"),
        (b"\x00\x00\x00\x00", "lacks required fields"),
        (b"\x00\x00\x00\x07\x0a\x01\xff\x10\x01\x18\x01", "not UTF-8"),
        (b"\x0e\x02\x00\x00\x00\x00", "exceeds its entry"),
    ],
)
def test_unreadable_input_is_refused(entry: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        wire_entry.parse_metadata(entry)
