"""Message ids of the former cluster of a topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.cursor.ranges import Range
from magnetar.geo.origins.former_ids import FormerIds, reason_against
from magnetar.geo.origins.index import OriginIndex

FIRST = 100
"""The first ledger of the topic here."""


def at(entry_id: int, ledger_id: int = 7) -> Position:
    return Position(ledger_id, entry_id)


def here(entry_id: int) -> Position:
    return Position(FIRST, entry_id)


def index_of_both() -> OriginIndex:
    """Return ewr 7:0, lga 3:0, ewr 7:1, jfk, ewr 7:4 (7:2 and 7:3 are not for jfk)."""
    index = OriginIndex("jfk")
    index.append("ewr", at(0), 1, here(0))
    index.append("lga", Position(3, 0), 1, here(1))
    index.append("ewr", at(1), 1, here(2))
    index.append_own(here(3), 1)
    index.append("ewr", at(4), 1, here(4), floor=at(3))
    return index


FORMER = FormerIds(index_of_both(), "ewr", FIRST)


def test_the_ledger_says_whose_an_id_is() -> None:
    assert [FORMER.has(each) for each in (0, 7, FIRST - 1, FIRST, FIRST + 1)] == [True, True, True, False, False]
    assert not FORMER.has(EARLIEST.ledger_id)
    assert not FORMER.has(LATEST.ledger_id)


def test_a_single_entry() -> None:
    assert [FORMER.local_of(at(each)) for each in range(6)] == [here(0), here(2), None, None, here(4), None]


def test_a_cumulative_acknowledgement_covers_entries_of_the_former_cluster_only() -> None:
    assert FORMER.acknowledged_through(at(1), EARLIEST) == [Range(here(0), here(0)), Range(here(2), here(2))]
    assert FORMER.acknowledged_through(at(3), here(0)) == [Range(here(2), here(2))]
    assert FORMER.acknowledged_through(at(1), here(2)) == []
    assert FORMER.acknowledged_through(Position(99, 0), here(3)) == [Range(here(4), here(4))]


def test_a_reader_starts_at_its_entry_or_the_next_one() -> None:
    assert [FORMER.start_at(at(each)) for each in range(6)] == [here(0), here(2), here(4), here(4), here(4), None]
    index = index_of_both()
    index.append("ewr", at(5), 1, Position(FIRST + 1, 0))
    index.trim(Position(FIRST + 1, 0))
    assert FormerIds(index, "ewr", FIRST).start_at(at(0)) == Position(FIRST + 1, 0)


@given(
    st.lists(st.sampled_from(["ewr", "lga", "jfk"]), min_size=1, max_size=30), st.integers(0, 30), st.integers(0, 30)
)
def test_a_cumulative_acknowledgement_is_that_of_each_entry(plan: list[str], upto: int, mark: int) -> None:
    index, origins = OriginIndex("jfk"), {"ewr": 0, "lga": 0}
    for entry_id, cluster in enumerate(plan):
        if cluster == "jfk":
            index.append_own(here(entry_id), 1)
        else:
            index.append(cluster, at(origins[cluster]), 1, here(entry_id))
            origins[cluster] += 1
    former = FormerIds(index, "ewr", FIRST)
    single = [former.local_of(at(each)) for each in range(upto + 1)]
    expected = [each for each in single if each is not None and each > here(mark)]
    found = former.acknowledged_through(at(upto), here(mark))
    assert [here(entry_id) for first, last in found for entry_id in range(first[1], last[1] + 1)] == expected


@pytest.mark.parametrize(
    ("cluster", "first", "reason"),
    [
        ("ewr", FIRST, None),
        ("ewr", 8, None),
        ("ewr", 7, "its ledger ids go up to 7, and those of the topic here begin at 7"),
        ("ewr", None, "the first ledger of the topic here is not known, since an earlier release trimmed the topic"),
        ("jfk", FIRST, "it is this cluster"),
        ("sfo", FIRST, "the topic has no message of it"),
    ],
)
def test_ids_must_be_below_those_of_the_topic(cluster: str, first: int | None, reason: str | None) -> None:
    assert reason_against(index_of_both(), cluster, first) == reason
