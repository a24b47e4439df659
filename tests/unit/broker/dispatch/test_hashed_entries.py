"""Hashed entries, compared with plain dictionaries."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.broker.dispatch.hashed_entries import STALE_MAX, HashedEntries, WaitingEntries
from magnetar.cursor.ranges import Range

HASHES = range(1, 5)
positions = st.builds(Position, st.integers(1, 2), st.integers(0, 15))
END = Position(9, 0)


def hash_of(position: Position) -> int:
    return HASHES[(position.ledger_id + position.entry_id) % len(HASHES)]


def range_to(first: Position, more: int) -> Range:
    return Range(first, first._replace(entry_id=first.entry_id + more))


def within(deleted: Range, twin: dict[Position, int]) -> list[Position]:
    return [position for position in twin if deleted.first <= position <= deleted.last]


@given(st.lists(st.tuples(st.sampled_from(["add", "pop", "discard"]), positions, st.integers(0, 9))))
def test_hashed_entries_are_those_of_a_dictionary(steps: list[tuple[str, Position, int]]) -> None:
    entries, twin = HashedEntries(), dict[Position, int]()
    for step, position, more in steps:
        if step == "add" and position not in twin:
            entries.add(position.ledger_id, [(position.entry_id, hash_of(position))])
            twin[position] = hash_of(position)
        elif step == "pop":
            assert entries.pop(position) == twin.pop(position, 0)
        elif step == "discard":
            gone = within(range_to(position, more), twin)
            assert sorted(entries.discard([range_to(position, more)])) == sorted(map(twin.pop, gone))
        assert sorted(entries) == sorted(twin)
        assert len(entries) == len(twin)
        assert entries[position] == twin.get(position, 0)
        counts = Counter(twin.values())
        assert {each: entries.count(each) for each in HASHES} == {each: counts[each] for each in HASHES}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["push", "take", "discard", "block", "unblock", "assign", "assign all"]),
            positions,
            st.integers(0, 9),
        )
    )
)
def test_waiting_entries_are_taken_in_order_and_once(steps: list[tuple[str, Position, int]]) -> None:
    owners = dict.fromkeys(HASHES, "one")
    blocked: set[int] = set()
    waiting: WaitingEntries[str] = WaitingEntries(lambda each: owners[each], lambda each: each in blocked)
    twin: dict[Position, int] = {}
    for step, position, number in steps:
        sticky_hash, owner = hash_of(position), ("one", "two")[number % 2]
        match step:
            case "push":
                waiting.push(position, sticky_hash)
                twin[position] = sticky_hash
            case "take":
                can = [each for each in sorted(twin) if owners[twin[each]] == owner and twin[each] not in blocked]
                expected = [each for each in can if each <= position][:number]
                assert waiting.take(owner, position, number) == [(each, twin.pop(each)) for each in expected]
            case "discard":
                waiting.discard([range_to(position, number)])
                for each in within(range_to(position, number), twin):
                    del twin[each]
            case "block":
                blocked.add(sticky_hash)
            case "unblock":
                blocked.discard(sticky_hash)
                waiting.unblocked(sticky_hash)
            case "assign":
                owners[sticky_hash] = owner
                waiting.reassign([sticky_hash, 99])
            case "assign all":
                owners = dict.fromkeys(HASHES, owner)
                waiting.left("two" if owner == "one" else "one")
                waiting.reassign_all()
        assert sorted(waiting) == sorted(twin)
        assert len(waiting) == len(twin)
        assert (position in waiting) == (position in twin)
        assert waiting.has(sticky_hash) == (sticky_hash in twin.values())
    blocked.clear()
    waiting.reassign(HASHES)
    left = waiting.take("one", END, 100) + waiting.take("two", END, 100)
    assert sorted(left) == sorted(twin.items())
    assert len(waiting) == 0


def test_acknowledged_waiting_entries_leave_nothing_behind() -> None:
    waiting: WaitingEntries[str] = WaitingEntries(lambda _: "one", lambda _: False)
    for entry_id in range(3 * STALE_MAX):
        waiting.push(Position(1, entry_id), 1)
        waiting.discard([Range(Position(1, entry_id), Position(1, entry_id))])
    assert sum(map(len, waiting._of_hash.values())) <= STALE_MAX + 1
    assert sum(map(len, waiting._lanes.values())) <= STALE_MAX + 1


def test_hashes_that_move_often_leave_little_behind() -> None:
    owners = ["one"]
    waiting: WaitingEntries[str] = WaitingEntries(lambda _: owners[0], lambda _: False)
    waiting.push(Position(1, 1), 3)
    for number in range(3 * STALE_MAX):
        owners[0] = ("one", "two")[number % 2]
        waiting.reassign([3])
    assert sum(map(len, waiting._lanes.values())) == waiting._in_lanes <= STALE_MAX + 3
    assert waiting.take(owners[0], END, 1) == [(Position(1, 1), 3)]


def test_acknowledged_waiting_entries_are_not_taken() -> None:
    waiting: WaitingEntries[str] = WaitingEntries(lambda _: "one", lambda _: False)
    waiting.push(Position(1, 1), 3)
    waiting.push(Position(1, 2), 3)
    waiting.discard([Range(Position(1, 1), Position(1, 1))])
    assert list(waiting.waited_for()) == ["one"]
    assert waiting.take("one", END, 5) == [(Position(1, 2), 3)]
    assert list(waiting.waited_for()) == []
    assert waiting._in_lanes == 0
    assert waiting.take("one", END, 1) == []


def test_an_entry_that_waits_again_in_a_stale_place_is_taken_once() -> None:
    waiting: WaitingEntries[str] = WaitingEntries(lambda _: "one", lambda _: False)
    position = Position(1, 1)
    waiting.push(position, 3)
    waiting.discard([Range(position, position)])
    waiting.push(position, 3)
    assert waiting.take("one", END, 5) == [(position, 3)]
    assert waiting.take("one", END, 5) == []
