"""Where an entry is, and where it was published."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.origins.index import OriginIndex
from magnetar.geo.origins.locating import Found, Location, Published, State, compared, location_of, origin_at

END = Position(9, 9)
PRESENT, TRIMMED, NOT_ARRIVED = State.PRESENT, State.TRIMMED, State.NOT_ARRIVED
NOT_FOR_THIS_CLUSTER, ABSENT = State.NOT_FOR_THIS_CLUSTER, State.ABSENT


def at(entry_id: int, ledger_id: int = 7) -> Position:
    return Position(ledger_id, entry_id)


def states(index: OriginIndex, cluster: str, *entries: int) -> list[str]:
    return [location_of(index, cluster, at(each), END).state for each in entries]


def test_entries_that_the_link_did_not_carry() -> None:
    """Between 2 and 6 the origin published entries through 4, which are not for this cluster."""
    index = OriginIndex("jfk")
    index.append("ewr", at(1), 2, Position(3, 0))
    index.append("ewr", at(6), 1, Position(3, 2), floor=at(4))
    assert location_of(index, "ewr", at(6), END) == Location(PRESENT, Position(3, 2))
    assert states(index, "ewr", 1, 2, 3, 4, 5, 6, 7) == [
        PRESENT,
        PRESENT,
        NOT_FOR_THIS_CLUSTER,
        NOT_FOR_THIS_CLUSTER,
        ABSENT,
        PRESENT,
        NOT_ARRIVED,
    ]


def test_an_entry_before_the_start_of_the_link_is_not_for_this_cluster() -> None:
    index = OriginIndex("jfk")
    index.append("ewr", at(5), 2, Position(3, 0), floor=at(3))
    assert states(index, "ewr", 2, 3, 4, 5) == [NOT_FOR_THIS_CLUSTER, NOT_FOR_THIS_CLUSTER, ABSENT, PRESENT]


def test_trimmed_entries_of_a_log_with_and_without_others() -> None:
    index = OriginIndex("jfk")
    index.append("ewr", at(1), 2, Position(3, 0))
    index.append("ewr", at(3), 2, Position(4, 0))
    index.append_own(Position(4, 2), 1)
    index.trim(Position(4, 0))
    assert states(index, "ewr", 2, 3, 5) == [TRIMMED, PRESENT, NOT_ARRIVED]
    index.trim(Position(5, 0))
    assert states(index, "ewr", 2, 3, 5) == [TRIMMED, TRIMMED, NOT_ARRIVED]
    assert location_of(index, "jfk", Position(4, 2), END).state is TRIMMED
    assert location_of(index, "jfk", Position(4, 1), END).state is TRIMMED
    assert states(index, "lga", 0) == [NOT_ARRIVED]


def test_own_positions() -> None:
    index = OriginIndex("jfk")
    index.append_own(Position(3, 0), 1)
    index.append("ewr", at(0), 1, Position(3, 1))
    index.append_own(Position(3, 2), 1)
    found = [location_of(index, "jfk", Position(3, entry_id), END).state for entry_id in range(4)]
    assert found == [PRESENT, ABSENT, PRESENT, ABSENT], "3:1 is an entry of ewr, and 3:3 is not written yet"


def test_a_returned_entry_of_an_earlier_life() -> None:
    index = OriginIndex("jfk")
    index.append_own(Position(30, 0), 1)
    index.append_returned(Position(2, 5), 2, Position(30, 1), Position(2, 4))
    assert location_of(index, "jfk", Position(2, 6), Position(30, 2)) == Location(PRESENT, Position(30, 2))
    assert location_of(index, "jfk", Position(2, 4), Position(30, 2)).state is ABSENT


def test_an_entry_that_is_not_durable_has_not_arrived() -> None:
    index = OriginIndex("jfk")
    index.append("ewr", at(1), 2, Position(3, 0))
    assert location_of(index, "ewr", at(2), Position(3, 0)).state is NOT_ARRIVED
    assert origin_at(index, Position(3, 1), Position(3, 0), Position(3, 0), 3) == Published(ABSENT)


def test_the_origin_of_a_local_position() -> None:
    index = OriginIndex("jfk")
    index.append("ewr", at(1), 1, Position(3, 0))
    index.append_own(Position(3, 1), 1)
    bounds = Position(3, 0), Position(3, 1), 2
    assert origin_at(index, Position(3, 0), *bounds) == Published(PRESENT, "ewr", at(1))
    assert origin_at(index, Position(3, 1), *bounds) == Published(PRESENT, "jfk", Position(3, 1))
    assert origin_at(index, Position(2, 9), *bounds) == Published(TRIMMED)
    assert origin_at(index, Position(1, 9), *bounds) == Published(ABSENT), "the first ledger was 2"
    assert origin_at(index, Position(1, 9), *bounds[:2], None) == Published(TRIMMED)
    assert origin_at(index, Position(3, 2), *bounds) == Published(ABSENT)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(0, 2), st.booleans()), min_size=1, max_size=8),
    st.integers(3, 9),
)
def test_each_position_has_the_state_that_a_list_of_the_entries_gives(
    plan: list[tuple[int, int, int, bool]], trimmed: int
) -> None:
    """Of each step, entries that are not for this cluster come first, then unused positions, then held entries."""
    index, local, origin = OriginIndex("jfk"), Position(3, 0), 0
    expected: dict[int, State] = {}
    for count, skipped, unused, rolls in plan:
        if rolls:
            local = Position(local.ledger_id + 1, 0)
        expected |= dict.fromkeys(range(origin, origin + skipped), NOT_FOR_THIS_CLUSTER)
        expected |= dict.fromkeys(range(origin + skipped, origin + skipped + unused), ABSENT)
        first = origin + skipped + unused
        index.append("ewr", at(first), count, local, floor=at(origin + skipped - 1))
        gone = TRIMMED if local.ledger_id < trimmed else PRESENT
        if gone is TRIMMED:
            expected = dict.fromkeys(expected, TRIMMED)
        expected |= dict.fromkeys(range(first, first + count), gone)
        local, origin = Position(local.ledger_id, local.entry_id + count), first + count
    index.trim(Position(trimmed, 0))
    end = Position(local.ledger_id, local.entry_id - 1)
    assert {each: location_of(index, "ewr", at(each), end).state for each in expected} == expected
    assert location_of(index, "ewr", at(origin), end).state is NOT_ARRIVED


def found(state: State, *clusters: str) -> Found:
    return Found(Location(state, EARLIEST if state is PRESENT else None), clusters if state is PRESENT else None)


def test_a_cluster_with_the_entry_knows_for_whom_it_is() -> None:
    answers = {"ewr": found(TRIMMED), "jfk": found(PRESENT, "jfk"), "lga": found(NOT_ARRIVED), "sfo": found(TRIMMED)}
    places = compared("ewr", answers)
    assert [each.state for each in places.values()] == [TRIMMED, PRESENT, NOT_FOR_THIS_CLUSTER, NOT_FOR_THIS_CLUSTER]
    answers["jfk"] = found(PRESENT)
    assert [each.state for each in compared("ewr", answers).values()] == [TRIMMED, PRESENT, NOT_ARRIVED, TRIMMED]


def test_an_entry_that_its_origin_does_not_know_will_not_come_unless_another_cluster_has_it() -> None:
    answers = {"ewr": found(ABSENT), "jfk": found(NOT_ARRIVED)}
    assert compared("ewr", answers)["jfk"].state is ABSENT
    assert compared("ewr", answers | {"lga": found(PRESENT)})["jfk"].state is NOT_ARRIVED
    assert compared("ewr", {"jfk": found(NOT_ARRIVED)})["jfk"].state is NOT_ARRIVED, "the origin does not answer"
