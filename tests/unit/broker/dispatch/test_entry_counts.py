"""Entry counts, compared with a dictionary by position."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.broker.dispatch.entry_counts import EntryCounts, by_ledger
from magnetar.cursor.ranges import Range

ledgers, entry_ids = st.integers(1, 3), st.integers(0, 20)
steps = st.lists(
    st.tuples(st.just("add"), ledgers, st.lists(st.tuples(entry_ids, st.integers(1, 5))))
    | st.tuples(st.just("pop"), ledgers, entry_ids)
    | st.tuples(st.just("discard"), ledgers, st.tuples(entry_ids, st.integers(0, 20)))
    | st.tuples(st.just("take"), ledgers, st.sets(entry_ids))
    | st.tuples(st.just("clear"), st.none(), st.none())
)


def entry_count_step(counts: EntryCounts, twin: dict[Position, int], step: tuple[str, int, object]) -> None:
    match step:
        case "add", ledger_id, list(added):
            counts.add(ledger_id, added)
            for entry_id, count in added:
                position = Position(ledger_id, entry_id)
                twin[position] = twin.get(position, 0) + count
        case "pop", ledger_id, int(entry_id):
            position = Position(ledger_id, entry_id)
            assert counts.pop(position) == twin.pop(position, 0)
        case "discard", ledger_id, (int(first), int(more)):
            forgotten = counts.discard([Range(Position(ledger_id, first), Position(ledger_id, first + more))])
            gone = [Position(ledger_id, entry_id) for entry_id in range(first, first + more + 1)]
            assert sorted(forgotten) == sorted(twin.pop(position) for position in gone if position in twin)
        case "take", ledger_id, set(ids):
            forgotten = counts.take({ledger_id: ids})
            gone = [Position(ledger_id, entry_id) for entry_id in ids]
            assert sorted(forgotten) == sorted(twin.pop(position) for position in gone if position in twin)
        case "clear", _, _:
            counts.clear()
            twin.clear()


@given(steps)
def test_numbers_are_those_of_a_dictionary(given: list[tuple[str, int, object]]) -> None:
    counts = EntryCounts()
    twin: dict[Position, int] = {}
    for step in given:
        entry_count_step(counts, twin, step)
        assert sorted(counts) == sorted(twin)
        assert {position: counts[position] for position in twin} == twin
        assert counts[Position(9, 9)] == 0
        assert counts.total == sum(twin.values())
        assert bool(counts) == bool(twin)


def test_entries_of_ranges_by_ledger() -> None:
    ranges = [
        Range(Position(1, 3), Position(1, 5)),
        Range(Position(2, 0), Position(2, 0)),
        Range(Position(1, 9), Position(1, 9)),
    ]
    assert by_ledger(ranges) == {1: {3, 4, 5, 9}, 2: {0}}
