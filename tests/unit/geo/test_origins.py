from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, Position
from magnetar.cursor.ranges import Range
from magnetar.geo.origins.annotation import RunExtent, decode_annotation, encode_annotation
from magnetar.geo.origins.index import Claim, OriginIndex
from magnetar.geo.progress.state import SubscriptionProgress
from magnetar.geo.receiving import Verdict, floor_of, gap_error, judge
from magnetar.wire.entries.origin import Origin

Entry = tuple[Position, str, Position]


def build(plan: list[tuple[str, int, bool]]) -> tuple[OriginIndex, list[Entry]]:
    """Build runs of entries of cluster a (local), b or c; True begins a new ledger on both sides."""
    index, entries = OriginIndex("a"), []
    local, remote = Position(5, 0), {"b": Position(70, 0), "c": Position(8, 3)}
    for cluster, count, rolls in plan:
        if rolls:
            local = Position(local.ledger_id + 2, 0)
            remote = {name: Position(position.ledger_id + 3, 0) for name, position in remote.items()}
        first = local if cluster == "a" else remote[cluster]
        index.append(cluster, first, count, local)
        for step in range(count):
            place = Position(local.ledger_id, local.entry_id + step)
            entries.append((place, cluster, Position(first.ledger_id, first.entry_id + step)))
        local = Position(local.ledger_id, local.entry_id + count)
        if cluster != "a":
            remote[cluster] = Position(first.ledger_id, first.entry_id + count)
    return index, entries


plans = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.booleans()), min_size=1, max_size=12)


def flat(ranges: list[Range]) -> list[Position]:
    return [Position(a.ledger_id, entry) for a, b in ranges for entry in range(a.entry_id, b.entry_id + 1)]


@settings(max_examples=200, deadline=None)
@given(plans, st.integers(0, 40), st.integers(0, 40))
def test_index_is_the_list_of_its_entries(plan: list[tuple[str, int, bool]], one: int, two: int) -> None:
    index, entries = build(plan)
    low, high = sorted((entries[one % len(entries)], entries[two % len(entries)]))
    for local, cluster, origin in entries:
        assert index.origin_of(local) == (cluster, origin)
        assert index.local_of(cluster, origin) == local
    for name in "abc":
        held = [entry for entry in entries if entry[1] == name]
        inside = [entry for entry in held if low[0] < entry[0] <= high[0]]
        assert index.count_own(name, low[0], high[0]) == len(inside)
        extents = list(index.own_extents(low[0], high[0], name))
        assert [
            (extent.local_first.entry_id + step, extent.origin_first.entry_id + step)
            for extent in extents
            for step in range(extent.count)
        ] == [(entry[0].entry_id, entry[2].entry_id) for entry in inside]
        assert index.last_position(name) == (held[-1][2] if held else None)
        assert flat(index.to_local(name, EARLIEST, Position(10**6, 0))) == [entry[0] for entry in held]
        below = [entry[2] for entry in held if entry[0] <= high[0]]
        assert index.positions_at(high[0]).get(name) == (below[-1] if below else None)


@given(plans, st.lists(st.integers(0, 47), unique=True))
def test_entries_in_ranges_are_those_of_their_origins(plan: list[tuple[str, int, bool]], chosen: list[int]) -> None:
    index, entries = build(plan)
    inside = [entries[number] for number in sorted(chosen) if number < len(entries)]
    ranges: list[Range] = []
    for place, _, _ in inside:
        if ranges and ranges[-1].last == (place.ledger_id, place.entry_id - 1):
            ranges[-1] = ranges[-1]._replace(last=place)
        else:
            ranges.append(Range(place, place))
    found = {
        (cluster, Position(ledger_id, entry_id))
        for cluster, runs in index.origins_of(ranges)
        for ledger_id, first, last in runs
        for entry_id in range(first, last + 1)
    }
    assert found == {(cluster, origin) for _, cluster, origin in inside}


@given(plans, st.integers(0, 40))
def test_cutting_back_and_trimming_keep_the_rest(plan: list[tuple[str, int, bool]], at: int) -> None:
    index, entries = build(plan)
    place = entries[at % len(entries)][0]
    index.cut_back(place)
    kept = [entry for entry in entries if entry[0] <= place]
    assert [index.origin_of(entry[0]) for entry in entries if entry[0] > place] == [None] * (len(entries) - len(kept))
    index.trim(Position(place.ledger_id, 0))
    for local, cluster, origin in kept:
        assert index.origin_of(local) == ((cluster, origin) if local.ledger_id >= place.ledger_id else None)
    for name in "abc":
        newest = [entry[2] for entry in kept if entry[1] == name]
        assert index.last_position(name) == (newest[-1] if newest else None)
    again = OriginIndex("a", index.positions_at(EARLIEST))
    for local, cluster, origin in kept:
        if local.ledger_id >= place.ledger_id:
            again.append(cluster, origin, 1, local)
    claims = [claim for local, _, _ in kept for claim in index.claims([Range(local, local)])]
    assert [claim for local, _, _ in kept for claim in again.claims([Range(local, local)])] == claims


def test_interleaved_entries_make_one_interval_for_each_origin() -> None:
    index, entries = build([("a", 1, False), ("b", 1, False)] * 500)
    progress = SubscriptionProgress("worker")
    for local, _, _ in entries[::2] + entries[1::2]:
        progress.claim(index.claims([Range(local, local)]))
    assert progress.intervals == 2


def test_nothing_is_claimed_across_a_floor() -> None:
    index = OriginIndex("a")
    index.append("b", Position(1, 0), 1, Position(5, 0), Position(1, -1))
    index.append("b", Position(1, 7), 1, Position(5, 1), Position(1, 6))
    assert index.claims([Range(Position(5, 0), Position(5, 1))]) == [
        Claim("b", Position(1, -1), Position(1, 0)),
        Claim("b", Position(1, 6), Position(1, 7)),
    ]


def test_entries_given_as_trimmed_that_are_here_after_all_start_nothing_late() -> None:
    index = OriginIndex("a", {"a": Position(5, 9)})
    index.append("a", Position(5, 0), 10, Position(5, 0))
    assert index.positions_at(Position(5, -1)) == {"a": Position(5, -1)}
    assert index.last_position("a") == Position(5, 9)


def origin(entry: int, previous: int | None, *, floor: int | None = None, link_start: bool = False) -> Origin:
    before = EARLIEST if previous is None else Position(1, previous)
    return Origin("b", Position(1, entry), before, before if floor is None else Position(1, floor), link_start)


def test_an_entry_is_taken_once_in_order_with_no_gap() -> None:
    last = Position(1, 5)
    assert judge(last, origin(5, 4)) is Verdict.DUPLICATE
    assert judge(last, origin(7, 5)) is Verdict.APPEND
    assert judge(last, origin(8, 7)) is Verdict.GAP
    assert judge(last, origin(8, 7, link_start=True)) is Verdict.APPEND
    assert judge(None, origin(8, 7)) is Verdict.GAP
    assert judge(None, origin(8, None)) is Verdict.APPEND
    assert str(gap_error(last, origin(8, 7))) == "gap: previous=1:7 last=1:5"
    assert str(gap_error(None, origin(8, 7))) == "gap: previous=1:7 last=-1:-1"


def test_a_floor_is_what_the_sender_knows_and_never_a_guess() -> None:
    last = Position(1, 3)
    assert floor_of(last, origin(9, 3)) == Position(1, 3)
    assert floor_of(last, origin(9, 3, floor=6)) == Position(1, 6)
    assert floor_of(last, origin(9, 2)) == Position(1, 3)
    assert floor_of(last, origin(9, None)) == Position(1, 8), "Apache Pulsar says nothing"
    assert floor_of(None, origin(9, 6, link_start=True)) == Position(1, 8)
    assert floor_of(last, origin(9, 6, link_start=True)) == Position(1, 8)
    assert floor_of(last, origin(9, 3, link_start=True)) == Position(1, 3)


def test_annotations_round_trip() -> None:
    extents = (RunExtent(Position(2**40, 5), 3, EARLIEST), RunExtent(Position(2**40, 9), 1, Position(2**40, 8)))
    assert decode_annotation(encode_annotation("zürich", extents, link_start=True)) == ("zürich", extents, True)
    assert decode_annotation(encode_annotation("b", extents)).link_start is False


def test_no_own_entry_is_claimed_across_a_loss_boundary() -> None:
    def build_again(index: OriginIndex) -> list[Claim]:
        for ledger_id in (5, 7, 8, 12):
            index.append("a", Position(ledger_id, 2), 3, Position(ledger_id, 2))
        return [claim for ledger_id in (5, 7, 8, 12) for claim in index.claims([Range(*_of(ledger_id))])]

    expected = [
        Claim("a", Position(5, 1), Position(5, 4)),
        Claim("a", Position(6, -1), Position(7, 4)),
        Claim("a", Position(7, 4), Position(8, 4)),
        Claim("a", Position(12, -1), Position(12, 4)),
    ]
    index = OriginIndex("a", loss_boundaries=(3, 6, 10, 12, 20))
    assert build_again(index) == expected
    assert [extent.floor for extent in index.own_extents(EARLIEST, Position(12, 9))] == [each[1] for each in expected]
    trimmed = OriginIndex("a", {"a": Position(4, 0)}, (5,))
    assert build_again(trimmed)[0] == Claim("a", Position(5, -1), Position(5, 4))


def test_a_loss_here_says_nothing_about_the_entries_of_other_clusters() -> None:
    index = OriginIndex("a", loss_boundaries=(6,))
    index.append("b", Position(5, 0), 1, Position(5, 0), Position(5, -1))
    index.append("b", Position(7, 0), 1, Position(7, 0), Position(5, 0))
    index.append("b", Position(8, 0), 1, Position(7, 1))
    assert index.claims([Range(Position(7, 0), Position(7, 1))]) == [Claim("b", Position(5, 0), Position(8, 0))]


def _of(ledger_id: int) -> tuple[Position, Position]:
    return Position(ledger_id, 0), Position(ledger_id, 9)
