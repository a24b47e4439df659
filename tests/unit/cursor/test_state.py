from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, Position
from magnetar.cursor import state as states
from magnetar.cursor.ranges import DeletedEntries, Range, deserialize
from magnetar.cursor.state import CursorState
from magnetar.ledger.chain import ChainLedger, LedgerChain
from tests.kit.work import lines_run
from tests.unit.cursor.fakes import Log

LEDGERS = (7, 3, 1, 9)  # number of entries in each ledger


def make_log() -> Log:
    log = Log()
    for entries in LEDGERS:
        log.roll()
        for _ in range(entries):
            log.append()
    return log


LOG = make_log()
END = LOG.positions[-1]
places = st.sampled_from(LOG.positions)
steps = st.lists(
    st.tuples(st.sampled_from(["one", "many", "through", "ranges", "batch", "reset"]), st.lists(places, max_size=5)),
    max_size=25,
)


def ranges_of(positions: list[Position]) -> list[Range]:
    """Return each position with the two entries after it, if its ledger has them."""
    return [
        Range(
            position,
            max(
                other
                for other in LOG.positions
                if position <= other <= position._replace(entry_id=position.entry_id + 2)
            ),
        )
        for position in positions
    ]


def entries_of(ranges: list[Range]) -> list[Position]:
    return [
        Position(first.ledger_id, entry_id)
        for first, last in ranges
        for entry_id in range(first.entry_id, last.entry_id + 1)
    ]


def step(
    state: CursorState, gone: set[Position], remaining: dict[Position, int], command: str, chosen: list[Position]
) -> None:
    before = set(gone)
    newly: list[Range] = []
    match command:
        case "one" | "many":
            newly = state.acknowledge(chosen[:1] if command == "one" else chosen)
            gone.update(chosen[:1] if command == "one" else chosen)
        case "through" if chosen:
            newly = state.acknowledge_cumulative(chosen[0])
            gone.update(position for position in LOG.positions if position <= chosen[0])
        case "ranges":
            newly = state.acknowledge_ranges(ranges_of(chosen))
            gone.update(entries_of(ranges_of(chosen)))
        case "batch":
            for bit, position in enumerate(chosen[:3]):
                left = remaining.get(position, 0b111) & ~(1 << bit)
                newly += state.acknowledge_batch(position, 0b111 & ~(1 << bit), 3)
                if position not in gone:
                    remaining[position] = left
                    if not left:
                        gone.add(position)
        case "reset" if chosen:
            state.reset(chosen[0], ranges_of(chosen[1:]))
            gone.clear()
            remaining.clear()
            gone.update(position for position in LOG.positions if position <= chosen[0])
            gone.update(entries_of(ranges_of(chosen[1:])))
            return
    assert sorted(entries_of(newly)) == sorted(gone - before)


@settings(max_examples=200, deadline=None)
@given(steps)
def test_state_is_the_set_of_its_entries(commands: list[tuple[str, list[Position]]]) -> None:
    state = CursorState(LOG, EARLIEST)
    gone: set[Position] = set()
    remaining: dict[Position, int] = {}
    for command, chosen in commands:
        step(state, gone, remaining, command, chosen)
        kept = [position for position in LOG.positions if position not in gone]
        assert [position for position in LOG.positions if not state.is_deleted(position)] == kept
        assert state.backlog(END) == len(kept)
        assert not kept or LOG.next_position(state.mark_delete_position) == kept[0]
        assert entries_of(state.undeleted(EARLIEST, END, 100)) == kept
        assert entries_of(state.undeleted(LOG.positions[4], END, 3)) == [p for p in kept if p >= LOG.positions[4]][:3]
        assert state.deleted_ranges_count == len(state.deleted_ranges()) == len(list(state.deleted()))
        partial = {position: left for position, left in remaining.items() if position not in gone}
        assert dict(state.partial_batches()) == partial
        assert state.partial_batches_count == len(partial)


def test_ranges_are_shown_open_below_and_closed_above() -> None:
    state = CursorState(LOG, EARLIEST)
    first = LOG.positions[0].ledger_id
    state.acknowledge([Position(first, 2), Position(first, 6), Position(first, 5)])
    assert state.deleted_ranges() == [
        (Position(first, 1), Position(first, 2)),
        (Position(first, 4), Position(first, 6)),
    ]


def test_mark_delete_passes_the_end_of_a_ledger_when_the_next_one_goes_on() -> None:
    state = CursorState(LOG, EARLIEST)
    state.acknowledge(LOG.positions[3:9])
    state.acknowledge(LOG.positions[:3])
    assert state.mark_delete_position == LOG.positions[8]
    assert state.deleted_ranges_count == 0


def test_a_batch_of_unknown_size_keeps_its_low_bits() -> None:
    state = CursorState(LOG, EARLIEST)
    assert state.acknowledge_batch(LOG.positions[0], 0b011) == []
    assert state.remaining(LOG.positions[0]) == 0b011
    assert state.acknowledge_batch(LOG.positions[0], 0b100) == [Range(LOG.positions[0], LOG.positions[0])]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 300), st.integers(0, 70))))
def test_deleted_entries_survive_as_bytes(stretches: list[tuple[int, int, int]]) -> None:
    entries = DeletedEntries()
    for ledger_id, first, more in stretches:
        entries.add_range(Range(Position(ledger_id, first), Position(ledger_id, first + more)))
    listed, mapped = entries.serialize()
    again = DeletedEntries(deserialize(mapped))
    for position in listed:
        assert again.add(position)
    assert list(again) == list(entries)
    assert (again.runs, again.entries) == (entries.runs, entries.entries)
    assert entries.runs == len(list(entries))
    assert entries.entries == sum(stretch.entries for stretch in entries)


def test_deleting_through_very_many_holes_names_the_ledgers_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "NEWLY_MAX", 3)
    log = Log()
    log.roll()
    positions = [log.append() for _ in range(10)]
    before = Position(log.ledger_id, -1)
    state = CursorState(log, before)
    state.acknowledge(positions[1:6:2])
    assert state.acknowledge_cumulative(positions[5]) == [Range(each, each) for each in positions[0:6:2]]
    state.reset(before, [Range(each, each) for each in positions[1:8:2]])
    assert state.acknowledge_cumulative(positions[7]) == [Range(positions[0], positions[7])]
    assert state.mark_delete_position == positions[7]


def test_deleting_through_very_many_holes_does_not_look_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "NEWLY_MAX", 3)

    def work(holes: int) -> int:
        log = Log()
        log.roll()
        positions = [log.append() for _ in range(2 * holes)]
        state = CursorState(log, Position(log.ledger_id, -1))
        state.acknowledge(positions[1::2])
        lines = lines_run(lambda: state.acknowledge_cumulative(positions[-2]))
        assert state.mark_delete_position == positions[-1]
        assert state.deleted_ranges_count == 0
        return lines

    assert work(1000) == work(10)


class Chained(LedgerChain):
    """A chain of ledgers in the interface of a cursor."""

    def count(self, after: Position, through: Position) -> int:
        return max(0, self.rank_after(through) - self.rank_after(after))


@pytest.mark.parametrize("held", [0, 4])
def test_entries_behind_the_last_ledger_are_not_sought_for_ever(held: int) -> None:
    """A power loss may remove acknowledgements of ledgers that were trimmed before; the log's end is still known."""
    chain = Chained()
    if held:
        chain.add(ChainLedger(5, 0, held))
    state = CursorState(chain, Position(5, held - 1))
    assert state.undeleted(EARLIEST, Position(9, 59), 10) == []
