"""The claims of an update, compared with a check of each entry of the log."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.position import EARLIEST, Position
from magnetar.cursor.ranges import Range
from magnetar.cursor.state import CursorState
from magnetar.geo.origins.index import Claim, OriginIndex
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.geo.progress.epochs import Epoch
from magnetar.geo.progress.state import SubscriptionProgress
from magnetar.geo.snapshots import claims as snapshot_claims
from magnetar.geo.snapshots.claims import UpdateClaims, changed_from, claimed, claims_of
from magnetar.geo.snapshots.markers import SubscriptionUpdate, decode
from magnetar.wire.entries import markers
from tests.unit.geo.test_origins import Entry, build, flat, plans


class Log:
    """The positions of a log."""

    def __init__(self, entries: list[Entry]) -> None:
        self.places = [local for local, _, _ in entries]

    def next_position(self, position: Position) -> Position:
        later = (place for place in self.places if place > position)
        return next(later, Position(self.places[-1].ledger_id, self.places[-1].entry_id + 1))

    def previous_position(self, position: Position) -> Position:
        return max((place for place in self.places if place < position), default=EARLIEST)

    def count(self, after: Position, through: Position) -> int:
        return sum(after < place <= through for place in self.places)


@settings(max_examples=300, deadline=None)
@given(
    plans,
    st.integers(0, 40),
    st.integers(0, 40),
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(-1, 40), max_size=5)),
    st.lists(st.integers(0, 40), max_size=8),
)
def test_exactly_what_is_claimed_and_not_deleted(
    plan: list[tuple[str, int, bool]], begin: int, end: int, bounds: dict[str, list[int]], deleted: list[int]
) -> None:
    index, entries = build(plan)
    state = CursorState(Log(entries), EARLIEST)
    state.acknowledge(entries[each % len(entries)][0] for each in deleted)
    start, through = entries[begin % len(entries)][0], entries[end % len(entries)][0]
    acknowledged = {name: intervals_of(entries, name, places) for name, places in bounds.items()}
    acknowledged = {name: intervals for name, intervals in acknowledged.items() if intervals}
    expected = [
        local
        for local, cluster, origin in entries
        if start <= local <= through
        and cluster in acknowledged
        and origin in acknowledged[cluster]
        and not state.is_deleted(local)
    ]
    found = claimed(index, state, Range(start, through), acknowledged)
    assert sorted(flat(found)) == expected
    assert len(flat(found)) == len(expected), "no entry twice"


@settings(max_examples=200, deadline=None)
@given(
    plans,
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(-1, 40), max_size=5)),
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(-1, 40), max_size=5)),
)
def test_no_claim_is_new_before_the_place_from_which_claims_changed(
    plan: list[tuple[str, int, bool]], before: dict[str, list[int]], after: dict[str, list[int]]
) -> None:
    index, entries = build(plan)
    old, new = (
        {name: found for name, places in each.items() if (found := intervals_of(entries, name, places))}
        for each in (before, after)
    )
    claimed_anew = [
        local
        for local, cluster, origin in entries
        if origin in new.get(cluster, IntervalSet()) and origin not in old.get(cluster, IntervalSet())
    ]
    begin = changed_from(index, old, new)
    assert begin is not None or not claimed_anew
    assert begin is None or all(local >= begin for local in claimed_anew)


def intervals_of(entries: list[Entry], cluster: str, places: list[int]) -> IntervalSet:
    """Return the intervals between pairs of a cluster's entries at these indexes; -1: before the first."""
    held = [EARLIEST, *(origin for _, name, origin in entries if name == cluster)]
    bounds = sorted({held[(place + 1) % len(held)] for place in places})
    return IntervalSet.from_bounds(bounds[: len(bounds) // 2 * 2])


def test_claims_are_what_was_acknowledged_as_far_as_the_update_goes() -> None:
    start, upper = Position(3, 4), Position(3, 9)
    starts, reached = {"jfk": start, "lga": start}, {"jfk": Position(3, 8), "lga": upper}
    state = SubscriptionProgress("moves", starts)
    assert claims_of(state, reached) == UpdateClaims(starts, {})
    state.claim([Claim("jfk", Position(3, 1), Position(3, 5)), Claim("jfk", Position(3, 6), upper)])
    acknowledged = IntervalSet.from_pairs([(start, Position(3, 5)), (Position(3, 6), Position(3, 8))])
    assert claims_of(state, reached) == UpdateClaims(starts, {"jfk": acknowledged}), "the sender lacks 3:6"
    assert claims_of(state, {"jfk": start}) == UpdateClaims(starts, {})
    state.epoch = Epoch(1, "")
    assert claims_of(state, reached) == UpdateClaims(starts, {"jfk": acknowledged}), "it was deleted and created again"


def test_a_seek_says_that_what_lies_before_is_not_wanted() -> None:
    start, upper = Position(3, 4), Position(3, 9)
    state = SubscriptionProgress("moves", {"jfk": start, "lga": start}, Epoch(2, "ewr"))
    state.claim([Claim("jfk", start, upper)])
    reached = {"jfk": upper, "lga": upper}
    acknowledged = {
        cluster: IntervalSet.from_pairs([(EARLIEST, at)]) for cluster, at in (("jfk", upper), ("lga", start))
    }
    assert claims_of(state, reached) == UpdateClaims({}, acknowledged)


def test_an_update_names_the_newest_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_claims, "INTERVALS_MAX", 2)
    state = SubscriptionProgress("moves")
    pairs = [(Position(3, entry_id), Position(3, entry_id + 1)) for entry_id in range(0, 10, 2)]
    state.claim([Claim("jfk", *pair) for pair in pairs])
    assert claims_of(state, {"jfk": Position(4, 0)}).acknowledged == {"jfk": IntervalSet.from_pairs(pairs[-2:])}


def test_claims_come_back_from_a_marker() -> None:
    intervals = IntervalSet.from_pairs([(EARLIEST, Position(3, 6)), (Position(4, -1), Position(4, 2))])
    claims = UpdateClaims({"jfk": Position(3, 4)}, {"ewr": intervals, "jfk": intervals})
    claims = claims.with_lives({"jfk": "first@3", "lga": "other@1"})
    assert claims.lives == {"jfk": "first@3"}
    update = markers.subscription_update("moves", {"jfk": Position(3, 9)}, claims)
    assert decode(markers.UPDATE, update) == SubscriptionUpdate("moves", {"jfk": Position(3, 9)}, claims)
    nothing = UpdateClaims({}, {})
    update = markers.subscription_update("moves", {}, nothing)
    assert decode(markers.UPDATE, update) == SubscriptionUpdate("moves", {}, nothing), "and not None"


def test_intervals_that_do_not_ascend_are_refused() -> None:
    wrong = [(Position(3, 6), Position(3, 4))]
    update = markers.subscription_update("moves", {}, ({}, {"jfk": wrong}))
    with pytest.raises(RemoteProtocolError, match="bounds of intervals"):
        decode(markers.UPDATE, update)


def test_ranges_are_of_one_ledger() -> None:
    index, entries = build([("a", 2, False), ("b", 3, False), ("a", 2, True)])
    state = CursorState(Log(entries), EARLIEST)
    everything, nothing = (EARLIEST, Position(80, 0)), (Position(70, 0), Position(80, 0))
    acknowledged = {"a": IntervalSet.from_pairs([everything]), "b": IntervalSet.from_pairs([nothing])}
    found = claimed(index, state, Range(EARLIEST, entries[-1][0]), acknowledged)
    assert found == [Range(Position(5, 0), Position(5, 1)), *found[1:]]
    assert all(first.ledger_id == last.ledger_id for first, last in found)


def test_returned_entries_are_acknowledged_only_if_they_are_claimed() -> None:
    """Other clusters sent them back after this one lost its data: they have positions of its earlier life."""
    index = OriginIndex("a")
    index.append_own(Position(8, 0), 1)
    index.append("b", Position(70, 0), 2, Position(9, 0))
    index.append_returned(Position(5, 0), 3, Position(9, 2), Position(5, -1))
    index.append_own(Position(9, 5), 1)
    places = [Position(8, 0), *(Position(9, entry_id) for entry_id in range(6))]
    state = CursorState(Log([(place, "", EARLIEST) for place in places]), Position(8, 0))

    def found(**claims: tuple[Position, Position]) -> list[int]:
        acknowledged = {name: IntervalSet.from_pairs([pair]) for name, pair in claims.items()}
        ranges = claimed(index, state, Range(EARLIEST, Position(9, 5)), acknowledged)
        return sorted(position.entry_id for position in flat(ranges))

    b, own = (EARLIEST, Position(70, 1)), (Position(8, -1), Position(9, 5))
    assert found(b=b, a=own) == [0, 1, 5], "claims of the present life do not include them"
    assert found(b=b, a=(Position(5, 0), Position(5, 1))) == [0, 1, 3]
    assert found(b=b, a=(Position(5, -1), Position(9, 5))) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("publishes", [False, True])
@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_rebuilt_cluster_claims_returned_entries_also_if_it_publishes_nothing(
    *, publishes: bool, is_trimmed: bool
) -> None:
    index = OriginIndex("a")
    index.append_returned(Position(5, 0), 2, Position(9, 0), Position(5, -1))
    index.append_returned(Position(4, 0), 2, Position(9, 2), Position(4, -1))
    index.append("b", Position(70, 0), 2, Position(9, 4))
    if publishes:
        index.append_own(Position(9, 6), 1)
    index.append_returned(Position(5, 2), 2, Position(9, 7), Position(5, 1))
    state = SubscriptionProgress("worker")
    state.claim(index.claims([Range(Position(9, 0), Position(9, 8))]))
    before = Position(9, 6)
    if is_trimmed:
        index = OriginIndex("a", index.positions_at(before), returned=index.returned_through(before))
    claims = claims_of(state, index.reached_at(before)).acknowledged
    assert claims["a"].covers(Position(5, -1), Position(5, 1))
    assert claims["a"].covers(Position(4, -1), Position(4, 1))
    if not publishes:
        assert not claims["a"].covers(Position(5, 1), Position(5, 3)), (
            "it was returned after the position of the update"
        )
