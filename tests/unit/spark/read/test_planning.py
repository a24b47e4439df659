"""The plan of a read, from the ledgers of a cluster."""

from __future__ import annotations

import json

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.spark.options import ReadOptions
from magnetar.spark.read.offsets import (
    TopicOffset,
    decode_offsets,
    encode_offsets,
    offsets_of,
    parse_offsets,
    ranges_between,
)
from magnetar.spark.read.planning import (
    DataLostError,
    batch_ranges,
    check_complete,
    end_of,
    first_offsets,
    ranges,
)
from magnetar.spark.read.ranges import TASK_BYTES, Ledger, Range, up_to_bytes

ORDERS = "persistent://public/default/orders"
FLIGHTS = "persistent://public/default/flights"
EMPTY = "persistent://public/default/empty"
LEDGERS = {ORDERS: [Ledger(3, 10, 100), Ledger(5, 20, 200)], FLIGHTS: [Ledger(4, 5, 50)], EMPTY: []}


def options(**given: str) -> ReadOptions:
    return ReadOptions.of({"service.url": "pulsar://b:6650", "admin.url": "http://b:8080", "topic": "any", **given})


def test_all_entries_are_read_by_default() -> None:
    assert batch_ranges(LEDGERS, options()) == [
        Range(ORDERS, EARLIEST, Position(5, 20), 30),
        Range(FLIGHTS, EARLIEST, Position(4, 5), 5),
    ]


def test_positions_are_stated_for_all_topics() -> None:
    with pytest.raises(ConfigurationError, match=r"startingOffsets has no position for .*flights, .*empty"):
        batch_ranges(LEDGERS, options(startingOffsets=f'{{"{ORDERS}": "3:4"}}'))


@pytest.mark.parametrize("start", [Position(1, 0), Position(2, 7)])
def test_deleted_entries_are_an_error_unless_they_are_accepted(start: Position) -> None:
    starts, ends = {ORDERS: start}, {ORDERS: Position(5, 1)}
    with pytest.raises(DataLostError, match=f"orders begins at 3:0, after the start {start}"):
        ranges(LEDGERS, options(), starts, ends)
    accepted = options(failOnDataLoss="false")
    assert ranges(LEDGERS, accepted, starts, ends) == [Range(ORDERS, start, Position(5, 1), 11)]


def test_a_topic_whose_entries_are_all_gone_is_an_error() -> None:
    with pytest.raises(DataLostError, match="empty has no entries at the start 7:0"):
        ranges(LEDGERS, options(), {EMPTY: Position(7, 0)}, {EMPTY: Position(7, 3)})


def test_entries_that_were_deleted_after_the_plan_are_an_error() -> None:
    (planned,) = ranges(LEDGERS, options(), {}, {ORDERS: Position(5, 8)})
    check_complete(planned, [*LEDGERS[ORDERS], Ledger(9, 4, 40)])
    with pytest.raises(DataLostError, match="orders: 10 of 18 entries before 5:8 were deleted"):
        check_complete(planned, LEDGERS[ORDERS][1:])


def test_nothing_is_read_between_equal_offsets() -> None:
    offsets = {ORDERS: Position(5, 3)}
    assert ranges(LEDGERS, options(), offsets, offsets) == []


def test_a_topic_that_appears_later_is_read_from_its_beginning() -> None:
    assert ranges(LEDGERS, options(), {}, {FLIGHTS: Position(4, 2)}) == [Range(FLIGHTS, EARLIEST, Position(4, 2), 2)]


def test_a_stream_that_starts_at_the_latest_position_reads_what_comes_later() -> None:
    latest = first_offsets(LEDGERS, options(startingOffsets="latest"))
    assert latest == {ORDERS: Position(5, 20), FLIGHTS: Position(4, 5), EMPTY: EARLIEST}


def test_the_end_of_a_topic_is_in_its_newest_ledger() -> None:
    """So entries of an earlier ledger may be deleted without a doubt that one of them was not read."""
    assert end_of([Ledger(3, 10, 100), Ledger(5, 0, 0)]) == Position(5, 0)


def test_a_batch_is_bounded_by_bytes_and_each_topic_makes_progress() -> None:
    ends = {ORDERS: Position(5, 20), FLIGHTS: Position(4, 5)}
    assert up_to_bytes({}, ends, LEDGERS, 350) == ends
    assert up_to_bytes({}, ends, LEDGERS, 175) == {ORDERS: Position(5, 5), FLIGHTS: Position(4, 2)}
    assert up_to_bytes({}, ends, LEDGERS, 1) == {ORDERS: Position(3, 1), FLIGHTS: Position(4, 1)}
    started = {ORDERS: Position(5, 19), FLIGHTS: Position(4, 5)}
    assert up_to_bytes(started, ends, LEDGERS, 1) == ends


def test_an_offset_states_the_tasks_of_its_batch() -> None:
    large = {ORDERS: [Ledger(3, 1_000, 2 * TASK_BYTES), Ledger(5, 0, 0)], FLIGHTS: LEDGERS[FLIGHTS]}
    starts = {ORDERS: TopicOffset(Position(3, 500)), EMPTY: TopicOffset(Position(8, 0))}
    ends = {topic: end_of(ledgers) for topic, ledgers in large.items()}
    planned = ranges(large, options(minPartitions="2"), {topic: one.next for topic, one in starts.items()}, ends)
    stored = json.dumps(encode_offsets(starts | offsets_of(ends, planned)))
    offset = decode_offsets(json.loads(stored))
    assert offset[ORDERS] == TopicOffset(Position(5, 0), ((Position(3, 750), 250), (Position(3, 1_000), 250)))
    assert sorted(ranges_between(starts, offset), key=planned.index) == planned
    assert ranges_between(offset, offset) == []


def test_offsets_of_options_are_json() -> None:
    assert parse_offsets("startingOffsets", "earliest") == EARLIEST
    assert parse_offsets("startingOffsets", '{"a": "latest", "b": "5:0"}') == {"a": LATEST, "b": Position(5, 0)}


@pytest.mark.parametrize("offset", ["5:3", {"next": "5:3"}, {"next": "5:3", "tasks": [7]}, {"next": "5", "tasks": []}])
def test_an_offset_of_something_else_is_an_error(offset: object) -> None:
    with pytest.raises(ValueError, match=r"was not written by this version|not a position"):
        decode_offsets({ORDERS: offset})  # type: ignore[dict-item]


@pytest.mark.parametrize("text", ["soon", "[]", '{"a": "5"}', '{"a": 5}', "{"])
def test_wrong_offsets_name_their_option(text: str) -> None:
    with pytest.raises(ConfigurationError, match="option endingOffsets: "):
        options(endingOffsets=text)
