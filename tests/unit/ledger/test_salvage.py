from __future__ import annotations

from magnetar.ledger.segments.record import encode_run
from magnetar.ledger.segments.salvage import damaged_ranges, salvage
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb

ANNOTATION = b"note"
HEAD = 24 + len(ANNOTATION)
"""Bytes of the body before the lengths."""


def entry(number: int) -> bytes:
    return build_entry(
        pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1), b"x" * (number * 7 % 13)
    )


ENTRIES = [entry(number) for number in range(6)]
BODY = b"".join(encode_run(3, 10, ENTRIES, ANNOTATION).parts)


def salvaged(body: bytes) -> list[bytes | None]:
    return salvage(body, len(ENTRIES), len(ANNOTATION))


def test_every_flipped_byte_costs_at_most_the_entry_it_is_in() -> None:
    starts = [len(BODY) - sum(map(len, ENTRIES[number:])) for number in range(len(ENTRIES))]
    for offset in range(len(BODY)):
        broken = bytearray(BODY)
        broken[offset] ^= 0x40
        hit = [number for number, start in enumerate(starts) if start <= offset < start + len(ENTRIES[number])]
        expected = [None if number in hit else ENTRIES[number] for number in range(len(ENTRIES))]
        assert salvaged(bytes(broken)) == expected, offset


def test_two_broken_lengths_cost_what_lies_between_them() -> None:
    broken = bytearray(BODY)
    broken[HEAD + 4 * 1] ^= 0x01
    broken[HEAD + 4 * 3] ^= 0x02
    assert salvaged(bytes(broken)) == [ENTRIES[0], None, None, None, *ENTRIES[4:]]


def test_a_run_that_is_cut_short_keeps_what_is_whole() -> None:
    assert salvaged(BODY[:-1]) == [*ENTRIES[:-1], None]
    assert salvaged(b"") == [None] * len(ENTRIES)


def test_an_entry_without_a_checksum_proves_nothing() -> None:
    body = b"".join(encode_run(3, 10, [b"plain", ENTRIES[1]], b"").parts)
    assert salvage(body, 2, 0) == [None, ENTRIES[1]]


def test_damaged_entries_are_named_in_ranges() -> None:
    assert damaged_ranges([b"a", None, None, b"b", None], 7) == [(8, 10), (11, 12)]
    assert damaged_ranges([b"a"], 7) == []
