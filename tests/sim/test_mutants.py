"""The simulation finds deliberate bugs in the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.sim.metasync.run import judge as judge_metadata
from magnetar.sim.run import judge
from tests.sim.mutants import METADATA_MUTANTS, MUTANTS, mutated

if TYPE_CHECKING:
    from collections.abc import Iterable

SEEDS_MAX = 50

QUICKLY_FOUND = {
    "a topic unloaded while writes are under way": 2,
    "a frame sent that is too large for the target": 9,
    "an epoch not raised by a seek": 2,
    "a newer epoch merged instead of taken over": 2,
    "a floor forgotten: claims what was not held": 0,
    "a tombstone ignored": 1,
    "pending acknowledgements not applied on arrival": 0,
    "a cursor not rebuilt in a newer epoch": 0,
    "a key sent to its new consumer at once": 0,
    "an operator's skip takes one entry too many": 0,
    "what an operator clears is not claimed": 0,
    "a receipt more than may be at risk": 0,
    "a target that lost its data believed complete": 1,
    "an unknown replication backlog told as 0": 0,
    "an entry confirmed when it is sent": 0,
    "links forgotten when trimming": 0,
    "ledger ids of a new disk begin at 1": 0,
    "nothing trimmed": 1,
    "progress published before it is durable": 0,
    "an event acknowledged before it is durable": 0,
}
"""Mutants, each with a seed that found it when it was listed, which is tried first."""


def first_found(name: str, seeds: Iterable[int]) -> int | None:
    """Return the first of the seeds that finds a mutant."""
    judged = judge_metadata if name in METADATA_MUTANTS else judge
    with mutated(name):
        return next((seed for seed in seeds if judged(seed).violation), None)


@pytest.mark.parametrize("name", sorted(MUTANTS | METADATA_MUTANTS))
def test_every_mutant_replaces_what_the_code_has(name: str) -> None:
    with mutated(name):
        pass


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", QUICKLY_FOUND)
def test_mutants_are_found_within_a_few_seeds(name: str) -> None:
    assert first_found(name, [QUICKLY_FOUND[name], *range(SEEDS_MAX)]) is not None


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(MUTANTS | METADATA_MUTANTS))
def test_every_mutant_is_found(name: str) -> None:
    assert first_found(name, range(SEEDS_MAX)) is not None
