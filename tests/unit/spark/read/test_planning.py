"""The plan of a read, from the ledgers of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.spark.options import ReadOptions
from magnetar.spark.read.offsets import decode_offsets, encode_offsets, parse_offsets
from magnetar.spark.read.planning import DataLostError, changes, first_offsets, last_offsets, plan
from magnetar.spark.read.ranges import Ledger, Range, up_to_bytes

if TYPE_CHECKING:
    from magnetar.spark.read.cluster import Cluster

ORDERS = "persistent://public/default/orders"
FLIGHTS = "persistent://public/default/flights"
EMPTY = "persistent://public/default/empty"
LEDGERS = {ORDERS: [Ledger(3, 10, 100), Ledger(5, 20, 200)], FLIGHTS: [Ledger(4, 5, 50)], EMPTY: []}


class Ledgers:
    """A cluster whose topics have ``LEDGERS``."""

    def topics(self) -> list[str]:
        return sorted(LEDGERS)

    def ledgers(self, topic: str) -> list[Ledger]:
        return LEDGERS[topic]


CLUSTER = cast("Cluster", Ledgers())


def options(**given: str) -> ReadOptions:
    return ReadOptions.of({"service.url": "pulsar://b:6650", "admin.url": "http://b:8080", "topic": "any", **given})


def test_all_entries_are_read_by_default() -> None:
    assert plan(CLUSTER, options()) == [
        Range(FLIGHTS, Position(4, 0), Position(4, 5), 5),
        Range(ORDERS, Position(3, 0), Position(5, 20), 30),
    ]


def test_positions_are_stated_for_all_topics() -> None:
    with pytest.raises(ConfigurationError, match=r"startingOffsets has no position for .*empty, .*flights"):
        plan(CLUSTER, options(startingOffsets=f'{{"{ORDERS}": "3:4"}}'))


@pytest.mark.parametrize("start", [Position(1, 0), Position(2, 7)])
def test_deleted_entries_are_an_error_unless_they_are_accepted(start: Position) -> None:
    starts, ends = {ORDERS: start}, {ORDERS: Position(5, 1)}
    with pytest.raises(DataLostError, match=f"orders begins at 3:0, after the start {start}"):
        changes(CLUSTER, options(), starts, ends)
    accepted = options(failOnDataLoss="false")
    assert changes(CLUSTER, accepted, starts, ends) == [Range(ORDERS, Position(3, 0), Position(5, 1), 11)]


def test_a_topic_whose_entries_are_all_gone_is_an_error() -> None:
    with pytest.raises(DataLostError, match="empty has no entries at the start 7:0"):
        changes(CLUSTER, options(), {EMPTY: Position(7, 0)}, {EMPTY: Position(7, 3)})


def test_nothing_is_read_between_equal_offsets() -> None:
    offsets = {ORDERS: Position(5, 3)}
    assert changes(CLUSTER, options(), offsets, offsets) == []


def test_a_topic_that_appears_later_is_read_from_its_beginning() -> None:
    ranges = changes(CLUSTER, options(), {}, {FLIGHTS: Position(4, 2)})
    assert ranges == [Range(FLIGHTS, Position(4, 0), Position(4, 2), 2)]


def test_a_stream_that_starts_at_the_latest_position_reads_what_comes_later() -> None:
    latest = first_offsets(CLUSTER, options(startingOffsets="latest"))
    assert (latest[ORDERS], latest[FLIGHTS]) == (Position(5, 20), Position(4, 5))
    assert last_offsets(CLUSTER, [ORDERS, EMPTY]) == {ORDERS: Position(5, 20)}


def test_a_batch_is_bounded_by_bytes_and_each_topic_makes_progress() -> None:
    ends = {ORDERS: Position(5, 20), FLIGHTS: Position(4, 5)}
    assert up_to_bytes({}, ends, CLUSTER.ledgers, 350) == ends
    assert up_to_bytes({}, ends, CLUSTER.ledgers, 175) == {ORDERS: Position(5, 5), FLIGHTS: Position(4, 2)}
    assert up_to_bytes({}, ends, CLUSTER.ledgers, 1) == {ORDERS: Position(3, 1), FLIGHTS: Position(4, 1)}
    started = {ORDERS: Position(5, 19), FLIGHTS: Position(4, 5)}
    assert up_to_bytes(started, ends, CLUSTER.ledgers, 1) == ends


def test_offsets_are_json_and_come_back() -> None:
    assert parse_offsets("startingOffsets", "earliest") == EARLIEST
    assert parse_offsets("startingOffsets", '{"a": "latest", "b": "5:0"}') == {"a": LATEST, "b": Position(5, 0)}
    offsets = {ORDERS: Position(5, 3), FLIGHTS: Position(4, 0)}
    assert decode_offsets(encode_offsets(offsets)) == offsets


@pytest.mark.parametrize("text", ["soon", "[]", '{"a": "5"}', '{"a": 5}', "{"])
def test_wrong_offsets_name_their_option(text: str) -> None:
    with pytest.raises(ConfigurationError, match="option endingOffsets: "):
        options(endingOffsets=text)
