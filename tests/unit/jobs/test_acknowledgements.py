"""The acknowledgement state in the internal stats of Apache Pulsar."""

from __future__ import annotations

from magnetar.base.position import LONG_MAX, Position
from magnetar.jobs.acknowledgements import acknowledged, in_internal_stats, named, states_in


def ranges(text: str) -> list[tuple[int, int, int]]:
    cursor = {"markDeletePosition": "5:1", "individuallyDeletedMessages": text}
    found = acknowledged(in_internal_stats(cursor, [3, 5, 8, 9]))
    assert (found.mark_delete, found.remaining) == (Position(5, 1), {})
    return list(zip(found.ledgers.tolist(), found.firsts.tolist(), found.lasts.tolist(), strict=True))


def test_a_range_excludes_its_lower_end() -> None:
    assert ranges("[]") == []
    assert ranges("[(5:2..5:4],(5:7..5:8],(8:-1..8:0]]") == [(5, 3, 4), (5, 8, 8), (8, 0, 0)]


def test_a_range_may_reach_over_several_ledgers() -> None:
    assert ranges("[(5:2..9:4]]") == [(5, 3, LONG_MAX), (8, 0, LONG_MAX), (9, 0, 4)]


def test_states_are_found_by_subscription_and_cluster() -> None:
    state = in_internal_stats({"markDeletePosition": "5:1", "individuallyDeletedMessages": "[]"}, [])
    assert states_in(named(state, "s", "one"))["s"]["one"].mark_delete == Position(5, 1)
