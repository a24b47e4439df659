"""Limits of a micro-batch."""

from __future__ import annotations

import pytest

from magnetar.base.position import Position
from magnetar.spark.read.batches.messages import Stored
from magnetar.spark.read.limits import counted, up_to_bytes
from magnetar.spark.read.ranges import Ledger, Log
from magnetar.wire.proto import pulsar_api_pb2 as pb

ORDERS = "persistent://public/default/orders"
FLIGHTS = "persistent://public/default/flights"
LOGS = {ORDERS: Log([Ledger(3, 10, 100), Ledger(5, 20, 200)]), FLIGHTS: Log([Ledger(4, 5, 50)])}


def test_a_batch_is_bounded_by_bytes_and_each_topic_makes_progress() -> None:
    ends = {ORDERS: Position(5, 20), FLIGHTS: Position(4, 5)}
    assert up_to_bytes({}, ends, LOGS, 350) == ends
    assert up_to_bytes({}, ends, LOGS, 175) == {ORDERS: Position(5, 5), FLIGHTS: Position(4, 2)}
    assert up_to_bytes({}, ends, LOGS, 1) == {ORDERS: Position(3, 1), FLIGHTS: Position(4, 1)}
    started = {ORDERS: Position(5, 19), FLIGHTS: Position(4, 5)}
    assert up_to_bytes(started, ends, LOGS, 1) == ends


def of_messages(*counts: int) -> list[Stored]:
    """Return entries with these numbers of messages; 0 for one without a batch."""
    metadata = [pb.MessageMetadata(num_messages_in_batch=count) if count else pb.MessageMetadata() for count in counts]
    return [Stored(Position(3, number), one, b"") for number, one in enumerate(metadata)]


@pytest.mark.parametrize(
    ("counts", "messages_max", "taken"),
    [
        ((0, 0, 0), 2, 2),
        ((0, 0, 0), 3, None),
        ((5, 5, 5), 10, 2),
        ((5, 5, 5), 9, 1),
        ((50, 1), 10, 1),
        ((50,), 10, None),
        ((0, 0), 0, 1),
        ((), 5, None),
    ],
)
def test_entries_are_taken_while_their_messages_are_within_the_limit(
    counts: tuple[int, ...], messages_max: int, taken: int | None
) -> None:
    expected = None if taken is None else Position(3, taken)
    assert counted(of_messages(*counts), messages_max) == expected
