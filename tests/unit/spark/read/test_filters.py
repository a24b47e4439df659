"""Filters that are decided before messages are unpacked, against their evaluation on every row."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.spark.read.batches.messages import Stored
from magnetar.spark.read.filters import NO_CONDITIONS, conditions_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

LEDGER, ENTRY = ("__ledgerId",), ("__entryId",)
EVERY = [
    Stored(
        Position(ledger, entry),
        pb.MessageMetadata(producer_name=f"p{entry}", sequence_id=0, publish_time=1_000 * entry),
        b"",
    )
    for ledger in (3, 5, 9)
    for entry in range(4)
]

comparisons = st.one_of(
    st.builds(
        lambda kind, column, value: kind(column, value),
        st.sampled_from([EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]),
        st.sampled_from([LEDGER, ENTRY]),
        st.integers(-1, 10),
    ),
    st.builds(In, st.sampled_from([LEDGER, ENTRY]), st.lists(st.integers(-1, 10), min_size=1, max_size=3).map(tuple)),
)


def matches(stored: Stored, wanted: Filter) -> bool:
    """Evaluate a filter on the position of an entry."""
    assert isinstance(wanted, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual | In)
    value = stored.position.ledger_id if wanted.attribute == LEDGER else stored.position.entry_id
    match wanted:
        case In():
            return value in wanted.value
        case EqualTo():
            return bool(value == wanted.value)
        case GreaterThan():
            return bool(value > wanted.value)
        case GreaterThanOrEqual():
            return bool(value >= wanted.value)
        case LessThan():
            return bool(value < wanted.value)
    return bool(value <= wanted.value)


@given(st.lists(comparisons, max_size=4))
def test_exactly_the_matching_positions_are_kept(filters: list[Filter]) -> None:
    conditions = conditions_of(filters)
    start, end = conditions.bounds()
    found = conditions.select([stored for stored in EVERY if start <= stored.position < end])
    assert found == [stored for stored in EVERY if all(matches(stored, wanted) for wanted in filters)]


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (GreaterThan(("__publishTime",), datetime.fromtimestamp(1.999999, UTC)), [2, 3]),
        (LessThanOrEqual(("__publishTime",), datetime.fromtimestamp(1, UTC)), [0, 1]),
        (EqualTo(("__producerName",), "p2"), [2]),
        (In(("__producerName",), ("p0", "p3", "p9")), [0, 3]),
    ],
)
def test_entries_are_selected_by_time_and_producer(wanted: Filter, kept: list[int]) -> None:
    assert [stored.position.entry_id for stored in conditions_of([wanted]).select(EVERY[:4])] == kept


def test_topics_are_selected() -> None:
    names = ["persistent://a/b/x", "persistent://a/b/y", "persistent://a/b/z"]
    assert conditions_of([In(("__topic",), (names[0], names[2]))]).topics(names) == [names[0], names[2]]
    assert NO_CONDITIONS.topics(names) == names


@pytest.mark.parametrize(
    "wanted",
    [
        EqualTo(("__key",), b"k"),
        EqualTo(LEDGER, None),
        EqualTo(LEDGER, 5.5),
        EqualTo(("__publishTime",), datetime(2020, 1, 1)),  # noqa: DTZ001 - a timestamp without zone
        EqualNullSafe(LEDGER, 5),
        In(LEDGER, (5, None)),
        IsNull(LEDGER),
        Not(EqualTo(LEDGER, 5)),
        EqualTo(("value", "__ledgerId"), 5),
    ],
)
def test_other_filters_keep_everything(wanted: Filter) -> None:
    assert conditions_of([wanted]) == NO_CONDITIONS
    assert NO_CONDITIONS.bounds() == (EARLIEST, LATEST)
    assert NO_CONDITIONS.select(EVERY) == EVERY
