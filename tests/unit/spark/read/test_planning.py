"""The plan of a read, from the ledgers of a cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import pytest

from magnetar.base.errors import ConfigurationError, DataLossError
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.spark.read.bounds import ends_of, starts_of
from magnetar.spark.read.offsets import (
    TopicOffset,
    decode_offsets,
    encode_offsets,
    offsets_of,
    ranges_between,
)
from magnetar.spark.read.option_values import parse_offsets
from magnetar.spark.read.options import ReadOptions
from magnetar.spark.read.planning import (
    check_complete,
    check_start,
    end_of,
    first_positions,
    last_before,
    ranges,
)
from magnetar.spark.read.ranges import TASK_BYTES, Ledger, Log, Range

if TYPE_CHECKING:
    from magnetar.spark.read.cluster import Cluster

ORDERS = "persistent://public/default/orders"
FLIGHTS = "persistent://public/default/flights"
EMPTY = "persistent://public/default/empty"
LOGS = {
    ORDERS: Log([Ledger(3, 10, 100), Ledger(5, 20, 200)]),
    FLIGHTS: Log([Ledger(4, 5, 50)]),
    EMPTY: Log([]),
}


def options(**given: str) -> ReadOptions:
    return ReadOptions.of({"service.url": "pulsar://b:6650", "admin.url": "http://b:8080", "topic": "any", **given})


class Times:
    """A cluster whose entries have their ids as publish times."""

    def position_at(self, topic: str, time_ms: int) -> Position:
        return Position(LOGS[topic].ledgers[-1].ledger_id, time_ms)


CLUSTER = cast("Cluster", Times())


def test_all_entries_are_read_by_default() -> None:
    topics = list(LOGS)
    starts, ends = starts_of(CLUSTER, options(), topics), ends_of(CLUSTER, options(), topics)
    assert ranges(LOGS, options(), starts, ends) == [
        Range(ORDERS, EARLIEST, Position(5, 20), 30),
        Range(FLIGHTS, EARLIEST, Position(4, 5), 5),
    ]


@pytest.mark.parametrize(("name", "value"), [("startingOffsets", "3:4"), ("startingTime", 5)])
def test_values_are_stated_for_all_topics(name: str, value: object) -> None:
    given = options(**{name: json.dumps({ORDERS: value})})
    with pytest.raises(ConfigurationError, match=f"{name} has no value for .*flights, .*empty"):
        starts_of(CLUSTER, given, LOGS)


def test_bounds_are_found_by_time() -> None:
    given = options(startingTime="5000", endingTime=f'{{"{ORDERS}": 7000, "{FLIGHTS}": 8000}}')
    assert starts_of(CLUSTER, given, [ORDERS]) == {ORDERS: Position(5, 5000)}
    assert ends_of(CLUSTER, given, [FLIGHTS, ORDERS]) == {FLIGHTS: Position(4, 8000), ORDERS: Position(5, 7000)}


@pytest.mark.parametrize("start", [Position(1, 0), Position(2, 7)])
def test_deleted_entries_are_an_error_unless_they_are_accepted(start: Position) -> None:
    starts, ends = {ORDERS: start}, {ORDERS: Position(5, 1)}
    with pytest.raises(DataLossError, match=f"orders begins at 3:0, after the start {start}"):
        ranges(LOGS, options(), starts, ends)
    accepted = options(failOnDataLoss="false")
    assert ranges(LOGS, accepted, starts, ends) == [Range(ORDERS, start, Position(5, 1), 11)]


def test_a_topic_whose_entries_are_all_gone_is_an_error() -> None:
    with pytest.raises(DataLossError, match="empty has no entries at the start 7:0"):
        ranges(LOGS, options(), {EMPTY: Position(7, 0)}, {EMPTY: Position(7, 3)})


def test_entries_that_were_deleted_after_the_plan_are_an_error() -> None:
    (planned,) = ranges(LOGS, options(), {}, {ORDERS: Position(5, 8)})
    check_complete(planned, [*LOGS[ORDERS].ledgers, Ledger(9, 4, 40)])
    with pytest.raises(DataLossError, match="orders: 10 of 18 entries before 5:8 were deleted"):
        check_complete(planned, LOGS[ORDERS].ledgers[1:])


def test_nothing_is_read_between_equal_offsets() -> None:
    offsets = {ORDERS: Position(5, 3)}
    assert ranges(LOGS, options(), offsets, offsets) == []


def test_a_topic_that_appears_later_is_read_from_its_beginning() -> None:
    assert ranges(LOGS, options(), {}, {FLIGHTS: Position(4, 2)}) == [Range(FLIGHTS, EARLIEST, Position(4, 2), 2)]


def test_a_stream_that_starts_at_the_latest_position_reads_what_comes_later() -> None:
    assert {topic: end_of(log) for topic, log in LOGS.items()} == {
        ORDERS: Position(5, 20),
        FLIGHTS: Position(4, 5),
        EMPTY: EARLIEST,
    }


def test_a_query_begins_after_what_the_subscription_acknowledged() -> None:
    logs = {ORDERS: Log(LOGS[ORDERS].ledgers, Position(3, 6)), FLIGHTS: LOGS[FLIGHTS], EMPTY: Log([], EARLIEST)}
    begins = first_positions(dict.fromkeys(logs, Position(4, 2)), logs)
    assert begins == {ORDERS: Position(3, 7), FLIGHTS: Position(4, 2), EMPTY: EARLIEST}


@pytest.mark.parametrize("mark_delete", [Position(2, 8), Position(3, -1)])
def test_entries_that_the_subscription_acknowledged_are_not_missed(mark_delete: Position) -> None:
    ledgers = LOGS[ORDERS].ledgers
    check_start(ORDERS, Position(2, 9), Log(ledgers, mark_delete))
    with pytest.raises(DataLossError):
        check_start(ORDERS, Position(2, 9), Log(ledgers, Position(3, 0)))


def test_the_last_entry_before_a_position_is_in_the_same_ledger_or_in_an_earlier_one() -> None:
    ledgers = LOGS[ORDERS].ledgers
    found = [last_before(position, ledgers) for position in (EARLIEST, Position(3, 4), Position(5, 0), LATEST)]
    assert found == [None, Position(3, 3), Position(3, 9), Position(5, 19)]


def test_the_end_of_a_topic_is_in_its_newest_ledger() -> None:
    """So entries of an earlier ledger may be deleted without a doubt that one of them was not read."""
    assert end_of(Log([Ledger(3, 10, 100), Ledger(5, 0, 0)])) == Position(5, 0)


def test_an_offset_states_the_tasks_of_its_batch() -> None:
    large = {ORDERS: Log([Ledger(3, 1_000, 2 * TASK_BYTES), Ledger(5, 0, 0)]), FLIGHTS: LOGS[FLIGHTS]}
    starts = {ORDERS: TopicOffset(Position(3, 500)), EMPTY: TopicOffset(Position(8, 0))}
    ends = {topic: end_of(log) for topic, log in large.items()}
    planned = ranges(large, options(minPartitions="2"), {topic: one.next for topic, one in starts.items()}, ends)
    stored = json.dumps(encode_offsets(starts | offsets_of(ends, planned)))
    offset = decode_offsets(json.loads(stored))
    assert offset[ORDERS] == TopicOffset(Position(5, 0), ((Position(3, 750), 250), (Position(3, 1_000), 250)))
    assert sorted(ranges_between(starts, offset), key=planned.index) == planned
    assert ranges_between(offset, offset) == []


def test_offsets_of_options_are_json() -> None:
    assert parse_offsets("earliest") == EARLIEST
    assert parse_offsets('{"a": "latest", "b": "5:0"}') == {"a": LATEST, "b": Position(5, 0)}


@pytest.mark.parametrize("offset", ["5:3", {"next": "5:3"}, {"next": "5:3", "tasks": [7]}, {"next": "5", "tasks": []}])
def test_an_offset_of_something_else_is_an_error(offset: object) -> None:
    with pytest.raises(ValueError, match=r"was not written by this version|not a position"):
        decode_offsets({ORDERS: offset})  # type: ignore[dict-item]


@pytest.mark.parametrize("text", ["soon", "-1", "[]", '{"a": "5"}', '{"a": -5}', '{"a": true}', '{"a": 1e999}'])
def test_wrong_times_name_their_option(text: str) -> None:
    with pytest.raises(ConfigurationError, match="option startingTime: "):
        options(startingTime=text)


@pytest.mark.parametrize("name", ["starting", "ending"])
def test_a_bound_is_stated_once(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"set one of the options {name}Offsets and {name}Time"):
        options(**{f"{name}Offsets": "earliest", f"{name}Time": "5"})


def test_an_option_of_the_other_kind_of_query_is_refused() -> None:
    given = {"service.url": "pulsar://b:6650", "admin.url": "http://b:8080", "topic": "any"}
    with pytest.raises(ConfigurationError, match="option endingTime is for batch queries only"):
        ReadOptions.of_stream({**given, "endingTime": "5"})
    with pytest.raises(ConfigurationError, match="option maxBytesPerTrigger is for streaming queries only"):
        ReadOptions.of_batch({**given, "maxBytesPerTrigger": "5"})


@pytest.mark.parametrize("text", ["soon", "[]", '{"a": "5"}', '{"a": 5}', "{"])
def test_wrong_offsets_name_their_option(text: str) -> None:
    with pytest.raises(ConfigurationError, match="option endingOffsets: "):
        options(endingOffsets=text)
