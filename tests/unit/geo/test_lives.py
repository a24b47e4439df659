from __future__ import annotations

import pytest

from magnetar.base.life import Life
from magnetar.base.position import EARLIEST, Position
from magnetar.geo.lives import may_be_mixed_up, may_follow, reason_against

NEWEST = Position(2000, 7)


@pytest.mark.parametrize(
    ("life", "known", "newest"),
    [
        (Life("a", 1000), "a", NEWEST),
        (Life("a", 1000), None, NEWEST),
        (Life("b", 1000), None, EARLIEST),
        (Life("b", 1000), "a", EARLIEST),
        (Life("b", 2001), "a", NEWEST),
    ],
)
def test_a_life_that_is_known_or_begins_above_all_known_positions_is_taken(
    life: Life, known: str | None, newest: Position
) -> None:
    assert reason_against(life, known, newest) is None


@pytest.mark.parametrize("first", [1, 1999, 2000])
def test_another_life_that_may_give_known_ids_again_is_refused_with_the_remedy(first: int) -> None:
    reason = reason_against(Life("b", first), "a", NEWEST)
    assert reason is not None
    assert "2000:7" in reason
    assert "firstLedgerId=2001" in reason


def test_a_life_is_read_as_it_is_written() -> None:
    assert Life.parse(str(Life("ab12", 17))) == Life("ab12", 17)


@pytest.mark.parametrize("text", ["", "17", "@17", "ab@x", "ab"])
def test_invalid_lives_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"names no life|invalid literal"):
        Life.parse(text)


def test_positions_of_another_life_are_told_apart_below_the_first_ledger_of_the_one_that_is_known() -> None:
    known = Life("b", 2001)
    assert not may_be_mixed_up(Life("a", 1000), known, Position(2000, 7))
    assert may_be_mixed_up(Life("a", 1000), known, Position(2001, 0))
    assert not may_be_mixed_up(known, known, Position(2001, 0))


def test_a_third_cluster_is_believed_only_about_a_life_that_begins_above_the_known_one() -> None:
    known = Life("b", 2001)
    assert may_follow(Life("a", 1000), None)
    assert may_follow(Life("c", 2002), known)
    assert not may_follow(Life("a", 1000), known)
    assert not may_follow(Life("c", 2001), known)
