"""Operations on many intervals: equal to single operations, and in linear time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.cursor.ranges import DeletedEntries, Range
from magnetar.geo.origins.index import Claim, OriginIndex
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.geo.progress.effects import effects_of_all
from magnetar.geo.progress.state import SubscriptionProgress
from tests.kit.work import lines_run

POSITIONS = st.builds(Position, st.integers(1, 3), st.integers(-1, 12))
PAIRS = st.lists(st.tuples(POSITIONS, POSITIONS).filter(lambda pair: pair[0] < pair[1]), max_size=20)
FEW, MANY = 200, 2_000


def one_by_one(*pairs: tuple[Position, Position]) -> IntervalSet:
    made = IntervalSet()
    for lower, upper in pairs:
        made.add(lower, upper)
    return made


@given(PAIRS)
def test_a_set_made_of_pairs_is_their_union(pairs: list[tuple[Position, Position]]) -> None:
    assert IntervalSet.from_pairs(pairs) == one_by_one(*pairs)


@given(PAIRS, PAIRS)
def test_adding_a_set_is_adding_its_intervals(
    pairs: list[tuple[Position, Position]], others: list[tuple[Position, Position]]
) -> None:
    united, other, twin = one_by_one(*pairs), one_by_one(*others), one_by_one(*pairs)
    added = [part for lower, upper in other for part in twin.add(lower, upper)]
    assert united.update(other) == added
    assert united == twin
    assert other == one_by_one(*others)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 20), st.integers(0, 5)), max_size=20))
def test_entries_made_of_ranges_are_those_added_one_by_one(places: list[tuple[int, int, int]]) -> None:
    ranges = [Range(Position(ledger, first), Position(ledger, first + more)) for ledger, first, more in places]
    twin = DeletedEntries()
    for each in ranges:
        twin.add_range(each)
    made = DeletedEntries.of_ranges(ranges)
    assert (made.entries, made.runs, list(made)) == (twin.entries, twin.runs, list(twin))


@given(st.lists(st.tuples(st.sampled_from("aab"), st.integers(1, 3)), min_size=1, max_size=12), PAIRS)
def test_many_claims_are_held_where_each_of_them_is(
    runs: list[tuple[str, int]], pairs: list[tuple[Position, Position]]
) -> None:
    index, at, local = OriginIndex("here"), {"a": 0, "b": 0}, 0
    for number, (cluster, count) in enumerate(runs):
        index.append(cluster, Position(1 + number // 4, at[cluster]), count, Position(7, local))
        at[cluster] += count
        local += count
    claims = [Claim(cluster, lower, upper) for cluster in ("a", "b", "unknown") for lower, upper in sorted(pairs)]
    singly = [held for cluster, lower, upper in claims for held in index.to_local(cluster, lower, upper)]
    assert list(index.to_local_all(claims)) == singly


def holes(count: int) -> SubscriptionProgress:
    state = SubscriptionProgress("worker")
    state.claim([Claim("ewr", Position(5, 2 * number), Position(5, 2 * number + 1)) for number in range(count)])
    return state


def work(count: int) -> list[int]:
    """Return the executed lines of each operation on ``count`` holes."""
    index = OriginIndex("ewr")
    index.append("ewr", Position(5, 0), 2 * count + 2, Position(5, 0))
    state, half = holes(count), holes(count)
    half.origin("ewr").acknowledged = IntervalSet.from_pairs(list(state.origin("ewr").acknowledged)[::2])
    return [
        lines_run(lambda: holes(count)),
        lines_run(lambda: SubscriptionProgress("worker").merge(state)),
        lines_run(lambda: half.merge(state)),
        lines_run(lambda: effects_of_all(index, state)),
    ]


def test_the_work_on_many_holes_is_in_proportion_and_small() -> None:
    many = work(MANY)
    assert all(after <= 1.1 * MANY / FEW * before for before, after in zip(work(FEW), many, strict=True))
    claiming, *others = many
    assert claiming < 40 * MANY, "lines for each hole"
    assert max(others) < 20 * MANY
