from __future__ import annotations

import pytest

from bench.sessions.moving import MESSAGE_BYTES, build, numbers
from magnetar.wire.entries import entry
from magnetar.wire.frame import Frame
from magnetar.wire.proto import pulsar_api_pb2 as pb


def as_message(body: bytes) -> Frame:
    return Frame(pb.BaseCommand(type=pb.BaseCommand.MESSAGE), body)


@pytest.mark.parametrize(("batch", "expected"), [(1, [3]), (10, [30, 31, 32, 33, 34, 35, 36, 37, 38, 39])])
def test_messages_carry_their_numbers(batch: int, expected: list[int]) -> None:
    body = build(3, batch)
    assert entry.checksum_matches(body)
    assert entry.messages_in(body) == batch
    assert numbers(as_message(body)) == expected


def test_a_message_alone_is_no_batch() -> None:
    body = build(3, 1)
    assert not entry.parse_metadata(body).HasField("num_messages_in_batch")
    assert len(entry.payload_of(body)) == MESSAGE_BYTES
