"""Which entries an update claims, compared with looking at each entry of the log."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, Position
from magnetar.cursor.ranges import Range
from magnetar.cursor.state import CursorState
from magnetar.geo.epochs import Epoch
from magnetar.geo.origins import Claim
from magnetar.geo.progress import SubscriptionProgress
from magnetar.geo.snapshot_claims import UpdateClaims, claimed, claims_of
from magnetar.geo.snapshot_markers import SubscriptionUpdate, decode
from magnetar.wire import markers
from tests.unit.geo.test_origins import Entry, build, flat, plans


class Log:
    """The positions that a log has."""

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
    st.dictionaries(st.sampled_from("abc"), st.integers(-1, 40)),
    st.lists(st.integers(0, 40), max_size=8),
)
def test_exactly_what_is_claimed_and_not_deleted(
    plan: list[tuple[str, int, bool]], begin: int, end: int, after: dict[str, int], deleted: list[int]
) -> None:
    index, entries = build(plan)
    state = CursorState(Log(entries), EARLIEST)
    state.acknowledge(entries[each % len(entries)][0] for each in deleted)
    start, through = entries[begin % len(entries)][0], entries[end % len(entries)][0]
    held = {name: [origin for _, cluster, origin in entries if cluster == name] for name in after}
    lower = {
        name: EARLIEST if place < 0 else held[name][place % len(held[name])]
        for name, place in after.items()
        if held[name]
    }
    expected = [
        local
        for local, cluster, origin in entries
        if start <= local <= through and cluster in lower and origin > lower[cluster] and not state.is_deleted(local)
    ]
    found = claimed(index, state, Range(start, through), lower)
    assert sorted(flat(found)) == expected
    assert len(flat(found)) == len(expected), "no entry twice"


def test_claims_begin_with_the_first_acknowledgement_and_end_with_a_seek() -> None:
    start, upper = Position(3, 4), Position(3, 9)
    state = SubscriptionProgress("moves", {"jfk": start, "lga": start})
    assert claims_of(state) == UpdateClaims({"jfk": start, "lga": start}, {})
    state.claim([Claim("jfk", Position(3, 1), upper)])
    assert claims_of(state) == UpdateClaims({"jfk": start, "lga": start}, {"jfk": start})
    state.epoch = Epoch(1, "")
    assert claims_of(state) is not None, "it was deleted and created again"
    state.epoch = Epoch(2, "ewr")
    assert claims_of(state) is None, "a seek says that what lies before is not wanted"


def test_claims_come_back_from_a_marker() -> None:
    claims = UpdateClaims({"jfk": Position(3, 4)}, {"ewr": EARLIEST, "jfk": Position(3, 6)})
    update = markers.subscription_update("moves", {"jfk": Position(3, 9)}, claims)
    assert decode(markers.UPDATE, update) == SubscriptionUpdate("moves", {"jfk": Position(3, 9)}, claims)
    nothing = UpdateClaims({}, {})
    update = markers.subscription_update("moves", {}, nothing)
    assert decode(markers.UPDATE, update) == SubscriptionUpdate("moves", {}, nothing), "and not None"


def test_ranges_are_of_one_ledger() -> None:
    index, entries = build([("a", 2, False), ("b", 3, False), ("a", 2, True)])
    state = CursorState(Log(entries), EARLIEST)
    found = claimed(index, state, Range(EARLIEST, entries[-1][0]), {"a": EARLIEST, "b": Position(70, 0)})
    assert found == [Range(Position(5, 0), Position(5, 1)), *found[1:]]
    assert all(first.ledger_id == last.ledger_id for first, last in found)
