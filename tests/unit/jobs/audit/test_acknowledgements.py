"""Disagreements about acknowledgements are named entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.acknowledgements import Acknowledged
from magnetar.jobs.audit.comparing.acknowledgements import differences, lasting
from magnetar.jobs.audit.tables import FINDINGS, Kind
from tests.unit.jobs.audit.logs import TOPIC, Entry, local, published, runs_of_logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LEDGERS = {"ewr": 10, "jfk": 700}
COUNT = 60


def logs() -> dict[str, list[Entry]]:
    """Return two logs with the same entries at other places: jfk has an entry of its own before every fifth."""
    of_jfk: list[Entry] = []
    for index, entry in enumerate(published("ewr", LEDGERS["ewr"], COUNT)):
        if index % 5 == 0:
            of_jfk.append(Entry("jfk", local(LEDGERS["jfk"], len(of_jfk)), 3))
        of_jfk.append(entry)
    return {"ewr": published("ewr", LEDGERS["ewr"], COUNT), "jfk": of_jfk}


LOGS = logs()
RUNS = runs_of_logs(LOGS, LEDGERS)
OF_EWR = RUNS.filter([origin == "ewr" for origin in RUNS["origin"].to_pylist()])


def places(cluster: str) -> dict[int, Position]:
    """Return the places of the entries of ewr in a cluster, by their number."""
    of_ewr = [(entry, index) for index, entry in enumerate(LOGS[cluster]) if entry.origin == "ewr"]
    return {entry.place.entry_id: local(LEDGERS[cluster], index) for entry, index in of_ewr}


def state(cluster: str, done: Iterable[int], remaining: Mapping[int, int] | None = None) -> Acknowledged:
    """Return a state in which the entries ``done`` of ewr, and all others of the cluster, are acknowledged."""
    held, numbers = places(cluster), set(done)
    kept = {held[number] for number in range(COUNT) if number not in numbers}
    log = [local(LEDGERS[cluster], index) for index in range(len(LOGS[cluster]))]
    mark = EARLIEST
    for place in log:
        if place in kept:
            break
        mark = place
    ranges: list[list[Position]] = []
    for place in log:
        if place > mark and place not in kept:
            if ranges and ranges[-1][1].entry_id == place.entry_id - 1:
                ranges[-1][1] = place
            else:
                ranges.append([place, place])
    return Acknowledged(
        mark,
        np.array([first.ledger_id for first, _ in ranges], np.int64),
        np.array([first.entry_id for first, _ in ranges], np.int64),
        np.array([last.entry_id for _, last in ranges], np.int64),
        {held[number]: bits for number, bits in (remaining or {}).items()},
    )


def found(ewr: Acknowledged, jfk: Acknowledged) -> list[tuple[str, str, int, str]]:
    """Return kind, cluster, entry and other clusters of each finding, by entry."""
    rows = differences(OF_EWR, {"s": {"ewr": ewr, "jfk": jfk}}).to_pylist()
    assert {row["subscription"] for row in rows} <= {"s"}
    return sorted(
        (row["kind"], row["cluster"], row["origin_entry"] + offset, row["other"])
        for row in rows
        for offset in range(row["count"])
    )


@given(st.sets(st.integers(0, COUNT - 1)), st.sets(st.integers(0, COUNT - 1)))
def test_every_entry_that_one_cluster_has_acknowledged_and_the_other_not_is_named(
    one: set[int], other: set[int]
) -> None:
    expected = [(Kind.UNACKNOWLEDGED.value, "jfk", number, "ewr") for number in one - other]
    expected += [(Kind.UNACKNOWLEDGED.value, "ewr", number, "jfk") for number in other - one]
    assert found(state("ewr", one), state("jfk", other)) == sorted(expected)


BITS = st.dictionaries(st.integers(0, COUNT - 1), st.integers(1, 7), max_size=5)


@given(BITS, BITS, st.sets(st.integers(0, COUNT - 1)))
def test_messages_of_batches_are_compared(one: dict[int, int], other: dict[int, int], done: set[int]) -> None:
    one = {number: bits for number, bits in one.items() if number not in done}
    other = {number: bits for number, bits in other.items() if number not in done}
    expected = []
    for number in sorted(one.keys() | other.keys()):
        mine, theirs = one.get(number, 7), other.get(number, 7)
        if mine & ~theirs or (number not in one and number in other):
            expected.append((Kind.PARTLY_ACKNOWLEDGED.value, "ewr", number, "jfk"))
        if theirs & ~mine or (number not in other and number in one):
            expected.append((Kind.PARTLY_ACKNOWLEDGED.value, "jfk", number, "ewr"))
    assert found(state("ewr", done, one), state("jfk", done, other)) == sorted(expected)


def test_entries_that_one_cluster_does_not_have_are_not_compared() -> None:
    only_ewr = OF_EWR.filter([cluster == "ewr" for cluster in OF_EWR["cluster"].to_pylist()])
    states = {"s": {"ewr": state("ewr", range(COUNT)), "jfk": state("jfk", ())}}
    assert differences(only_ewr, states).num_rows == 0


@pytest.mark.parametrize(
    ("later", "lasts"),
    [([(5, 10)], [(5, 10)]), ([(7, 2)], [(7, 2)]), ([(0, 7), (12, 9)], [(5, 2), (12, 3)]), ([(15, 5)], []), ([], [])],
)
def test_only_differences_that_both_looks_show_last(later: list[tuple[int, int]], lasts: list[tuple[int, int]]) -> None:
    def table(stretches: list[tuple[int, int]], cluster: str = "jfk") -> Any:  # noqa: ANN401 - pyarrow has no types
        done = {number for first, count in stretches for number in range(first, first + count)}
        states = {cluster: state(cluster, set(range(COUNT)) - done), "ewr": state("ewr", range(COUNT))}
        return differences(OF_EWR, {"s": states})

    rows = lasting(table([(5, 10)]), table(later)).to_pylist()
    assert [(row["origin_entry"], row["count"]) for row in rows] == lasts


def test_a_subscription_that_is_missing_at_both_looks_is_named_once() -> None:
    row = {"kind": Kind.NO_SUBSCRIPTION.value, "topic": TOPIC, "subscription": "s", "cluster": "jfk", "other": "ewr"}
    table = pa.Table.from_pylist([row], FINDINGS)
    assert lasting(table, table).equals(table)
    assert lasting(table.slice(0, 0), table).num_rows == 0
