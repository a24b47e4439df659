"""Each row of the table of migration fences."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from magnetar.broker.migration_fence.transitions import Fence, Phase, reason_against, reason_against_removal

SETTLING, CLOSED, FINAL = Phase.SETTLING, Phase.CLOSED, Phase.FINAL
NOW = 1_000.0


def fence(phase: Phase, migration: str = "m", epoch: int = 5) -> Fence:
    return Fence(migration=migration, epoch=epoch, phase=phase, lease_s=30.0)


STORED = {None: None} | {phase: fence(phase) for phase in Phase}

ALLOWED = {
    (None, SETTLING, "same"),
    (None, SETTLING, "earlier"),
    (None, SETTLING, "later"),
    (None, SETTLING, "other"),
    (SETTLING, SETTLING, "same"),
    (SETTLING, CLOSED, "same"),
    (CLOSED, CLOSED, "same"),
    (CLOSED, FINAL, "same"),
    (FINAL, FINAL, "same"),
    (SETTLING, SETTLING, "later"),
    (CLOSED, SETTLING, "later"),
}
"""All that may be set: the stored phase, the wanted one, and who sets it."""


@pytest.mark.parametrize("stored", STORED)
def test_only_the_phases_of_the_table_may_follow(stored: Phase | None) -> None:
    by = {"same": ("m", 5), "earlier": ("m", 4), "later": ("m", 6), "other": ("n", 6)}
    for phase, (who, named) in product(Phase, by.items()):
        refusal = reason_against(STORED[stored], fence(phase, *named))
        assert (refusal == "") is ((stored, phase, who) in ALLOWED), (stored, phase, who)
        has_not_begun = stored is None or (who == "later" and stored is not FINAL)
        named_in_refusal = "there is no fence of migration" if has_not_begun else "fenced by migration m (epoch 5, "
        assert refusal == "" or named_in_refusal in refusal


def test_who_lost_the_fence_learns_that_clients_went_on() -> None:
    assert "clients may have gone on here\nhint: begin with" in reason_against(None, fence(FINAL))


def test_the_next_phases_are_named() -> None:
    refusal = reason_against(fence(CLOSED), fence(SETTLING))
    assert refusal.endswith("the next phase may be closed, final, not settling")


REMOVALS = [
    (stored, migration, epoch, is_decision)
    for stored, migration, epoch, is_decision in product(STORED, ("m", "n"), (4, 5, 6), (False, True))
    if stored is None or (migration == "m" and epoch >= 5 and (stored is not FINAL or is_decision))
]
"""All removals that are allowed, or have nothing to remove."""


@pytest.mark.parametrize("stored", STORED)
def test_a_fence_is_removed_by_its_migration_and_a_decision_only_on_purpose(stored: Phase | None) -> None:
    for migration, epoch, is_decision in product(("m", "n"), (4, 5, 6), (False, True)):
        refusal = reason_against_removal(STORED[stored], migration, epoch, is_decision=is_decision)
        is_allowed = (stored, migration, epoch, is_decision) in REMOVALS
        assert (refusal == "") is is_allowed, (stored, migration, epoch, is_decision)


def test_a_lease_begins_when_a_fence_is_set_and_a_decision_has_none() -> None:
    assert fence(SETTLING).begun(NOW).ends_at == NOW + 30
    assert fence(CLOSED).begun(NOW).ends_at == NOW + 30
    assert fence(FINAL).begun(NOW).ends_at is None


@pytest.mark.parametrize(
    ("now", "left_s"),
    [(NOW, 30.0), (NOW + 12, 18.0), (NOW + 30, 0.0), (NOW + 3_000_000, 0.0), (NOW - 3_000_000, 30.0)],
    ids=["at once", "later", "at its end", "after a jump forward", "after a jump back"],
)
def test_after_a_load_a_lease_lasts_at_most_once_more(now: float, left_s: float) -> None:
    assert fence(SETTLING).begun(NOW).remaining_s(now) == left_s


def test_a_decision_has_no_end() -> None:
    assert fence(FINAL).begun(NOW).remaining_s(NOW + 1e9) is None


@pytest.mark.parametrize("phase", Phase)
def test_a_fence_is_stored_and_read_back(phase: Phase) -> None:
    stored = fence(phase, 'a "quoted" näme').begun(NOW)
    assert Fence.decode(stored.encode()) == stored
    assert Fence.decode(replace(stored, epoch=6).encode()) != stored
