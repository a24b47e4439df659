"""Limits of persisted state: equal to a reference, and exactly the announced entries are delivered again."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.cursor.limits import CursorLimits
from magnetar.cursor.persisted import PersistedEntries
from magnetar.cursor.ranges import DeletedEntries, Range
from tests.unit.cursor.fakes import singly
from tests.unit.cursor.support import Setup

ENTRIES = 60
LEDGER = 3


def ids_of(entries: DeletedEntries) -> set[int]:
    return {entry_id for first, last in entries for entry_id in range(first.entry_id, last.entry_id + 1)}


def runs(ids: set[int]) -> list[set[int]]:
    """Return the maximal runs, ascending."""
    found: list[set[int]] = []
    for entry_id in sorted(ids):
        if entry_id - 1 in ids:
            found[-1].add(entry_id)
        else:
            found.append({entry_id})
    return found


def admit(persisted: set[int], deleted: set[int], newly: list[int], ranges_max: int) -> set[int]:
    """Return the persisted ones of ``deleted`` by a reference algorithm, when ``newly`` came last, in this order."""
    waiting = [run for entry_id in newly for run in runs(deleted) if entry_id in run] + runs(deleted)
    for run in waiting:
        if run & persisted or len(runs(persisted)) < ranges_max:
            persisted = persisted | run
    return persisted


@given(
    flushes=st.lists(st.lists(st.integers(0, ENTRIES - 1), max_size=8), max_size=12),
    passed=st.lists(st.integers(-1, ENTRIES - 1), min_size=12, max_size=12),
    ranges_max=st.integers(0, 6),
)
@example(flushes=[[1, 3, 5, 7], [2]], passed=[-1] * 12, ranges_max=2)
@example(flushes=[[51, 55, 1, 52, 53], [51, 3, 54]], passed=[0] * 12, ranges_max=2)
def test_the_persisted_ranges_equal_the_reference(flushes: list[list[int]], passed: list[int], ranges_max: int) -> None:
    persisted = PersistedEntries(DeletedEntries(), ranges_max)
    deleted, twin = DeletedEntries(), set[int]()
    for acknowledged, mark in zip(flushes, passed, strict=False):
        wanted = singly(Position(LEDGER, entry_id) for entry_id in acknowledged)
        stretches = [added for each in wanted for added in deleted.add_range(each)]
        newly = [each.first.entry_id for each in stretches]
        run_end = next((max(run) for run in runs(ids_of(deleted)) if mark in run), mark)  # as a mark-delete position
        deleted.discard_through(Position(LEDGER, run_end))
        persisted.entries.discard_through(Position(LEDGER, run_end))
        before = ids_of(persisted.entries)
        added = persisted.admit(deleted, stretches)
        twin = admit({each for each in twin if each > run_end}, ids_of(deleted), newly, ranges_max)
        assert ids_of(persisted.entries) == twin
        assert ids_of(added) == twin - before
        assert persisted.entries.runs == len(runs(twin)) <= ranges_max
        assert deleted.runs > ranges_max or twin == ids_of(deleted)


acknowledgements = st.tuples(st.just("entry"), st.integers(0, 99), st.integers(0, 3))
batches = st.tuples(st.just("batch"), st.integers(0, 99), st.integers(1, 6))
others = st.tuples(
    st.sampled_from(["through", "flush", "reset", "all", "limited", "fail"]), st.integers(0, 99), st.just(0)
)


@given(st.lists(acknowledgements | batches | others, max_size=40))
@example([("entry", 1, 0), ("entry", 3, 0), ("entry", 5, 0), ("entry", 7, 0), ("flush", 0, 0), ("entry", 2, 0)])
def test_exactly_the_announced_entries_are_redelivered_after_a_crash(steps: list[tuple[str, int, int]]) -> None:
    setup = Setup(CursorLimits(unacked_ranges_max=3, batch_deleted_max=2))
    cursor = setup.cursors.create("worker", setup.start)
    for what, index, more in steps:
        position = setup.positions[index]
        match what:
            case "entry":
                cursor.acknowledge_ranges([Range(position, setup.positions[min(index + more, 99)])])
            case "batch":
                cursor.acknowledge_batch(position, more, 3)
            case "through":
                cursor.acknowledge_cumulative(position)
            case "reset":
                cursor.reset(position, singly(setup.positions[index + 2 :: 9]))
            case "all" | "limited":
                cursor.persists_all = what == "all"
            case "flush":
                setup.flush(cursor)
            case "fail":
                setup.metadata.full = True
                cursor.flush(lambda _: None)
                setup.store.fail()
                setup.metadata.full = False
    setup.flush(cursor)
    state, recovered = cursor.state, setup.crash().state
    again = [each for each in setup.positions if state.is_deleted(each) and not recovered.is_deleted(each)]
    assert len(again) == cursor.unpersisted_entries
    assert not [each for each in setup.positions if recovered.is_deleted(each) and not state.is_deleted(each)]
    changed = [each for each, left in state.partial_batches() if recovered.remaining(each) != left]
    assert len(changed) == cursor.unpersisted_batches
    if cursor.persists_all or (state.deleted_ranges_count <= 3 and state.partial_batches_count <= 2):
        assert not again
        assert not changed


def test_the_excess_is_persisted_once_others_make_room() -> None:
    setup = Setup(CursorLimits(unacked_ranges_max=3))
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_ranges(singly(setup.positions[1:11:2]))
    setup.flush(cursor)
    assert cursor.unpersisted_entries == 2
    assert setup.crash().state.deleted_ranges_count == 3
    cursor.acknowledge_ranges(singly(setup.positions[2:4:2]))
    setup.flush(cursor)
    assert cursor.unpersisted_entries == 1
    cursor.persists_all = True
    setup.flush(cursor)
    assert cursor.unpersisted_entries == 0
    assert setup.crash().state.deleted_ranges() == cursor.state.deleted_ranges()
