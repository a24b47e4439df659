"""The order in which links are attached."""

from __future__ import annotations

from magnetar.pipeline.reading.openings import Openings


def opened(openings: Openings) -> list[int]:
    return list(openings.starting())


def test_a_limited_number_is_opened_at_a_time() -> None:
    openings = Openings(2)
    for number in range(4):
        openings.add(number, is_urgent=False)
    assert opened(openings) == [0, 1]
    assert opened(openings) == []
    openings.remove(1)
    openings.remove(1)
    assert opened(openings) == [2]


def test_urgent_ones_are_next() -> None:
    openings = Openings(1)
    for number in range(4):
        openings.add(number, is_urgent=number == 2)
    openings.hurry(3)
    openings.hurry(2)
    order = []
    while found := opened(openings):
        order += found
        openings.remove(found[0])
    assert order == [2, 3, 0, 1]


def test_one_that_is_opened_already_is_not_opened_again() -> None:
    openings = Openings(1)
    openings.add(0, is_urgent=False)
    openings.add(1, is_urgent=False)
    assert opened(openings) == [0]
    openings.hurry(0)
    openings.remove(0)
    assert opened(openings) == [1]


def test_one_that_ends_before_its_turn_is_not_opened() -> None:
    openings = Openings(1)
    for number in range(3):
        openings.add(number, is_urgent=number == 1)
    openings.remove(1)
    openings.remove(0)
    assert opened(openings) == [2]
