"""The number of unwritten entries is limited. Dropped ones are found again by scanning the log from the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import LATEST, Position
from magnetar.broker.delayed import unwritten
from magnetar.broker.delayed.unwritten import UnwrittenEntries
from magnetar.broker.delayed.window import Delayed

if TYPE_CHECKING:
    from magnetar.ledger.managed_ledger import ManagedLedger

MAX = 5


class OneLedger:
    name = "orders"

    def previous_position(self, position: Position) -> Position:
        return position._replace(entry_id=position.entry_id - 1)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwritten, "UNWRITTEN_MAX", MAX)


def delayed(entry_id: int) -> Delayed:
    return Delayed(1000 - entry_id, Position(1, entry_id))


def entries() -> UnwrittenEntries:
    return UnwrittenEntries(cast("ManagedLedger", OneLedger()))


def test_they_are_taken_in_the_order_in_which_they_came_and_those_that_failed_come_first_again() -> None:
    waiting = entries()
    for entry_id in (3, 1, 2):
        waiting.add(delayed(entry_id))
    taken = waiting.take()
    assert [each.position.entry_id for each in taken] == [3, 1, 2]
    assert len(waiting) == 0
    waiting.add(delayed(4))
    waiting.put_back(taken)
    assert [each.position.entry_id for each in waiting.take()] == [3, 1, 2, 4]
    assert not waiting.has_gap


@given(st.lists(st.sampled_from([*["add"] * 12, "fail", "write", "search"]), max_size=60))
def test_every_entry_is_written_or_waits_or_lies_behind_the_gap(plan: list[str]) -> None:
    waiting, under_way = entries(), list[Delayed]()
    missing: set[int] = set()
    for entry_id, step in enumerate(plan):
        match step:
            case "add":
                waiting.add(delayed(entry_id))
                missing.add(entry_id)
                under_way = under_way or waiting.take()
            case "fail":
                waiting.put_back(under_way)
                under_way = waiting.take()
            case "write":
                missing -= {each.position.entry_id for each in under_way}
                under_way = waiting.take()
            case "search" if waiting.has_gap:
                after = waiting.take_gap()
                missing = {each for each in missing if each <= after.entry_id}  # the log has the others
                assert waiting.given_up_after == LATEST
        assert len(waiting) <= MAX
        held = under_way + waiting.take()
        assert all(
            any(each.position.entry_id == entry_id for each in held) or entry_id > waiting.given_up_after.entry_id
            for entry_id in missing
        )
        waiting.put_back(held[len(under_way) :])
