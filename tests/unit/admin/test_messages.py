"""Peeked entries, with arbitrary contents."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest

from magnetar.admin.messages import HEADERS_SIZE_MAX, entry_response
from magnetar.base.position import Position
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb


def peeked(
    payload: bytes = b"payload",
    **fields: Any,  # noqa: ANN401 - of MessageMetadata
) -> tuple[bytes, dict[str, str]]:
    required: dict[str, Any] = {"producer_name": "p", "sequence_id": 1, "publish_time": 1}
    metadata = pb.MessageMetadata(**required | fields)
    response = entry_response(Position(3, 0), build_entry(metadata, payload))
    return bytes(response.body), {name.decode(): value.decode("latin-1") for name, value in response.raw_headers}


@pytest.mark.parametrize("key", ["schlüssel", "ключ", "a\r\nX-Injected: b", "100 %\t", "\x00", "鍵"])
def test_a_key_of_any_characters_gets_through(key: str) -> None:
    content, headers = peeked(partition_key=key)
    assert content == b"payload"
    assert not any(character in value for value in headers.values() for character in "\r\n\0")
    assert "x-injected" not in headers
    if "x-pulsar-percent-encoded" in headers:
        assert headers["x-pulsar-percent-encoded"] == "partition-key"
        assert unquote(headers["x-pulsar-partition-key"]) == key
    else:
        assert headers["x-pulsar-partition-key"] == key == "schlüssel"


def test_printable_text_is_not_changed() -> None:
    _, headers = peeked(partition_key="100 % /a?b=c")
    assert headers["x-pulsar-partition-key"] == "100 % /a?b=c"
    assert "x-pulsar-percent-encoded" not in headers


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("partition-key", {"partition_key": "x" * (HEADERS_SIZE_MAX + 1)}),
        ("PROPERTY", {"properties": [pb.KeyValue(key="k", value="x" * 10)] * HEADERS_SIZE_MAX}),
        ("PROPERTY", {"properties": [pb.KeyValue(key=str(each), value="x") for each in range(HEADERS_SIZE_MAX // 10)]}),
        ("replicated-to", {"replicate_to": ["x" * 100] * 1000}),
    ],
    ids=["key", "properties", "short properties", "clusters"],
)
def test_values_that_are_too_long_for_headers_are_left_out(name: str, fields: dict[str, Any]) -> None:
    content, headers = peeked(**fields, sequence_id=7)
    assert content == b"payload"
    assert headers["x-pulsar-omitted"] == name
    assert f"x-pulsar-{name.lower()}" not in headers
    assert headers["x-pulsar-sequence-id"] == "7"
    assert sum(map(len, headers.values())) < 1000


def test_the_longest_of_several_values_is_left_out() -> None:
    keys: dict[str, Any] = {
        "partition_key": "x" * (HEADERS_SIZE_MAX // 2),
        "producer_name": "x" * (HEADERS_SIZE_MAX // 2 + 1),
    }
    _, headers = peeked(**keys)
    assert headers["x-pulsar-omitted"] == "producer-name"
    assert headers["x-pulsar-partition-key"] == keys["partition_key"]


@pytest.mark.parametrize("moment", [2**64 - 1, 2**63, 10**17])
def test_a_time_that_no_calendar_has_is_told_as_a_number(moment: int) -> None:
    _, headers = peeked(event_time=moment)
    assert headers["x-pulsar-event-time"] == str(moment)
    assert headers["x-pulsar-publish-time"] == "1970-01-01T00:00:00.001Z"


@pytest.mark.parametrize("compression", [pb.ZLIB, pb.LZ4, pb.ZSTD, pb.SNAPPY])
def test_a_payload_that_cannot_be_decompressed_is_answered_as_it_is(compression: pb.CompressionType.ValueType) -> None:
    content, headers = peeked(b"no such stream", compression=compression, uncompressed_size=100)
    assert content == b"no such stream"
    assert headers["x-pulsar-payload-error"]
    assert headers["x-pulsar-compression"] == pb.CompressionType.Name(compression)


def test_text_that_is_none_is_shown_with_its_bytes() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    raw = (
        metadata.SerializeToString() + b"\x32\x02\xff\xfe" + b"\x22\x06\x0a\x01k\x12\x01\xff"
    )  # partition_key, property
    length = len(raw).to_bytes(4, "big")
    response = entry_response(Position(3, 0), length + raw + b"payload")
    headers = {name.decode(): value.decode("latin-1") for name, value in response.raw_headers}
    assert headers["x-pulsar-partition-key"] == r"\xff\xfe"
    assert headers["x-pulsar-property"] == r'{"k": "\\xff"}'
