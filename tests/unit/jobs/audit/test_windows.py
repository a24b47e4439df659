"""The entries that a cluster is expected to have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.jobs.audit.comparing.windows import (
    EXPECTED,
    IN_FLIGHT,
    NOT_COMPARABLE,
    SKIPPED,
    Gap,
    Held,
    Log,
    Window,
    trimmed_everywhere,
    windows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE = Log(exists=True, end=Position(10, 99), head=Position(10, 0), trimmed={}, delivered={"jfk": Position(10, 20)})
TARGET = Log(exists=True, end=Position(700, 50), head=Position(700, 0), trimmed={})
HELD = {"jfk": Held(Position(10, 5), Position(10, 30))}


def of_jfk(source: Log = SOURCE, target: Log = TARGET, held: Mapping[str, Held] = HELD) -> Window:
    return windows("ewr", {"ewr": source, "jfk": target}, held)[1]


def state(window: Window, ledger: int, entry: int) -> int:
    return int(window.states(ledger, 0, 100)[entry])


def test_entries_through_the_newest_one_of_the_target_are_expected() -> None:
    states = [state(of_jfk(), 10, entry) for entry in (0, 30, 31, 99)]
    assert states == [EXPECTED, EXPECTED, IN_FLIGHT, IN_FLIGHT]
    assert [state(of_jfk(), ledger, 50) for ledger in (9, 11)] == [EXPECTED, IN_FLIGHT]


def test_delivered_entries_are_expected_even_if_the_target_has_none() -> None:
    assert [state(of_jfk(held={}), 10, entry) for entry in (0, 20, 21)] == [EXPECTED, EXPECTED, IN_FLIGHT]


def test_without_a_link_newer_entries_are_not_comparable() -> None:
    source = Log(exists=True, end=Position(10, 99), head=Position(10, 0), trimmed={})
    assert [state(of_jfk(source), 10, entry) for entry in (30, 31)] == [EXPECTED, NOT_COMPARABLE]


def test_trimmed_entries_are_not_comparable() -> None:
    target = Log(exists=True, end=Position(700, 50), head=Position(701, 0), trimmed={"ewr": Position(10, 3)})
    assert [state(of_jfk(target=target), 10, entry) for entry in (3, 4)] == [NOT_COMPARABLE, EXPECTED]


def test_a_target_that_trimmed_all_entries_waits_for_newer_ones_only() -> None:
    source = Log(exists=True, end=Position(10, 99), head=Position(10, 0), delivered={"jfk": EARLIEST})
    target = Log(exists=True, end=Position(700, 50), head=Position(701, 0), trimmed={"ewr": Position(10, 3)})
    assert [state(of_jfk(source, target, {}), 10, entry) for entry in (3, 4)] == [NOT_COMPARABLE, IN_FLIGHT]


def test_a_target_that_does_not_tell_what_it_trimmed_is_compared_from_its_oldest_entry() -> None:
    target = Log(exists=True, end=Position(700, 50), head=Position(701, 0))
    assert [state(of_jfk(target=target), 10, entry) for entry in (4, 5)] == [NOT_COMPARABLE, EXPECTED]
    states = [state(of_jfk(target=target, held={}), 10, entry) for entry in (0, 20, 21)]
    assert states == [NOT_COMPARABLE, NOT_COMPARABLE, IN_FLIGHT]


def test_entries_before_the_start_of_a_link_are_not_comparable() -> None:
    held = {"jfk": Held(Position(10, 5), Position(10, 30), (Gap(Position(10, 10), Position(10, 15)),))}
    states = [state(of_jfk(held=held), 10, entry) for entry in (10, 11, 14, 15)]
    assert states == [EXPECTED, NOT_COMPARABLE, NOT_COMPARABLE, EXPECTED]
    held = {"jfk": Held(Position(10, 5), Position(10, 30), (Gap(EARLIEST, Position(10, 5)),))}
    assert [state(of_jfk(held=held), 10, entry) for entry in (0, 4, 5)] == [NOT_COMPARABLE, NOT_COMPARABLE, EXPECTED]


def test_entries_that_the_link_skips_are_told_apart_unless_the_target_trimmed_them() -> None:
    source = replace(
        SOURCE, skipped={"jfk": (Gap(Position(10, 7), Position(10, 10)),), "lga": (Gap(EARLIEST, LATEST),)}
    )
    states = [state(of_jfk(source), 10, entry) for entry in (7, 8, 9, 10)]
    assert states == [EXPECTED, SKIPPED, SKIPPED, EXPECTED]
    assert [state(of_jfk(source), ledger, 8) for ledger in (9, 11)] == [EXPECTED, IN_FLIGHT]
    target = replace(TARGET, trimmed={"ewr": Position(10, 8)})
    assert [state(of_jfk(source, target), 10, entry) for entry in (8, 9)] == [NOT_COMPARABLE, SKIPPED]


def test_what_every_cluster_has_trimmed_is_the_least_of_all() -> None:
    source = replace(SOURCE, head=Position(10, 9))
    target = replace(TARGET, trimmed={"ewr": Position(10, 3)})
    assert trimmed_everywhere("ewr", {"ewr": source, "jfk": target}) == Position(10, 3)
    assert trimmed_everywhere("ewr", {"ewr": replace(source, head=Position(10, 2)), "jfk": target}) == Position(10, 1)
    assert trimmed_everywhere("ewr", {"ewr": source, "jfk": TARGET}) == EARLIEST
    assert trimmed_everywhere("ewr", {"ewr": source, "jfk": replace(TARGET, trimmed=None)}) == EARLIEST
    assert trimmed_everywhere("ewr", {"ewr": source, "jfk": Log()}) == Position(10, 8)
    assert trimmed_everywhere("ewr", {"ewr": Log(), "jfk": Log()}) == LATEST


@pytest.mark.parametrize(("exists", "newer"), [(True, IN_FLIGHT), (False, NOT_COMPARABLE)])
def test_the_origin_is_expected_to_have_what_it_stores(exists: bool, newer: int) -> None:
    log = Log(exists=exists, end=Position(10, 40), head=Position(10, 2), trimmed={})
    window = windows("ewr", {"ewr": log, "jfk": TARGET}, HELD)[0]
    assert [state(window, 10, entry) for entry in (1, 2, 40, 41)] == [NOT_COMPARABLE, EXPECTED, EXPECTED, newer]


def test_entries_of_a_cluster_outside_of_the_audit_are_in_flight_until_they_arrive() -> None:
    window = windows("lga", {"ewr": SOURCE, "jfk": TARGET}, {"jfk": Held(Position(3, 0), Position(3, 9))})[1]
    assert [state(window, 3, entry) for entry in (9, 10)] == [EXPECTED, IN_FLIGHT]
