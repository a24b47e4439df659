"""Messages are found in packets, and their sightings become the times of processes."""

from __future__ import annotations

import struct

import pytest

from bench.end_to_end import MARK, STAMP
from bench.hops import Sighting, hops, sightings_in

OWNERS = {6650: "broker ewr", 5000: "reader"}


def packet(payload: bytes, source_port: int = 4000, target_port: int = 6650, protocol: int = 6) -> bytes:
    ip = bytes([0x45, *bytes(8), protocol, *bytes(10)])
    return ip + struct.pack(">HH", source_port, target_port) + bytes(16) + payload


def message(number: int, sent_ns: int) -> bytes:
    return STAMP.pack(number, sent_ns) + MARK + bytes(10)


def test_all_whole_messages_of_a_packet_are_found() -> None:
    payload = b"head" + message(1, 10) + b"between" + message(2, 20) + message(3, 30)[: STAMP.size + 3]
    found = list(sightings_in(packet(payload), 99))
    assert found == [Sighting(1, 99, 6650, 10), Sighting(2, 99, 6650, 20)]


@pytest.mark.parametrize("other", [b"", b"\x60" * 80, packet(message(1, 10), protocol=17)])
def test_other_packets_have_no_messages(other: bytes) -> None:
    assert not list(sightings_in(other, 1))


def test_the_time_in_a_process_begins_when_the_one_before_has_sent() -> None:
    seen = [
        Sighting(7, 5_000_000, 5000, 0),
        Sighting(7, 1_000_000, 6650, 0),
        Sighting(7, 5_500_000, "writer"),
        Sighting(7, 6_000_000, 4001, 0),
        Sighting(8, 1_000_000, 6650, 0),
    ]
    ((path, times),) = hops(seen, OWNERS, {7: 8.0}).items()
    assert path == ("producer", "broker ewr", "reader", "writer", "consumer")
    assert list(times.values()) == [[1.0], [4.0], [0.5], [0.5], [2.0]]
    assert list(times) == ["1 producer", "2 broker ewr", "3 reader", "4 writer", "5 consumer"]


def test_a_message_that_was_not_received_does_not_count() -> None:
    assert not hops([Sighting(7, 1, 6650, 0)], OWNERS, {})
