from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.ledger.chain import ChainLedger, LedgerChain

LENGTHS = st.lists(st.integers(0, 4), max_size=5)
POSITIONS = st.one_of(st.builds(Position, st.integers(-1, 20), st.integers(-1, 6)), st.sampled_from([EARLIEST, LATEST]))


def chain_of(lengths: list[int], removed: int = 0) -> tuple[LedgerChain, list[Position]]:
    """Return a chain with ledgers 3, 6, 9... of these lengths, and all its entries."""
    chain = LedgerChain()
    for number, length in enumerate(lengths, 1):
        ledger = ChainLedger(3 * number, created_ms=0)
        chain.add(ledger)
        chain.change(ledger, length, 10 * length)
    chain.remove_first(removed)
    kept = [Position(3 * number, entry) for number, length in enumerate(lengths, 1) for entry in range(length)]
    return chain, [position for position in kept if position.ledger_id > 3 * removed]


@given(LENGTHS, st.data(), POSITIONS)
def test_ranks_and_neighbours_are_those_of_a_list(lengths: list[int], data: st.DataObject, position: Position) -> None:
    chain, entries = chain_of(lengths, data.draw(st.integers(0, len(lengths))))
    below = [entry for entry in entries if entry < position]
    above = [entry for entry in entries if entry > position]
    assert chain.entries == len(entries)
    assert chain.size == 10 * len(entries)
    assert chain.contains(position) == (position in entries)
    assert chain.rank_after(position) == len(entries) - len(above)
    assert [chain.position_of(rank) for rank in range(len(entries))] == entries
    following, preceding = chain.next_position(position), chain.previous_position(position)
    assert following == above[0] if above else following > position
    assert preceding == below[-1] if below else preceding < position or preceding == EARLIEST


@given(LENGTHS, POSITIONS)
def test_next_position_without_a_next_entry_is_where_it_would_go(lengths: list[int], position: Position) -> None:
    chain, entries = chain_of(lengths)
    following = chain.next_position(position)
    if not any(entry > position for entry in entries):
        assert following not in entries
        assert not any(position < entry <= following for entry in entries)


def test_entries_taken_back_from_an_earlier_ledger_move_the_later_ones() -> None:
    chain, _ = chain_of([4, 2])
    chain.change(chain.ledgers[0], -3, -30)
    assert [chain.position_of(rank) for rank in range(chain.entries)] == [
        Position(3, 0),
        Position(6, 0),
        Position(6, 1),
    ]
    assert chain.size == 30


@given(LENGTHS, POSITIONS)
def test_size_after_counts_the_entries_behind(lengths: list[int], position: Position) -> None:
    chain, entries = chain_of(lengths)
    assert chain.size_after(position) == 10 * sum(entry > position for entry in entries)


@given(LENGTHS, st.integers(0, 250))
def test_position_before_last_leaves_as_much_as_may_be(lengths: list[int], size: int) -> None:
    chain, entries = chain_of(lengths)
    through = chain.position_before_last(size)
    assert chain.size_after(through) == min(size // 10, len(entries)) * 10
