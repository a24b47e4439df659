"""The simulation finds deliberate bugs in the core."""

from __future__ import annotations

import pytest

from magnetar.sim.metasync.run import judge as judge_metadata
from magnetar.sim.run import judge
from tests.sim.mutants import METADATA_MUTANTS, MUTANTS, mutated

SEEDS_MAX = 50

QUICKLY_FOUND = [
    "a topic unloaded while writes are under way",
    "a frame sent that is too large for the target",
    "an epoch not raised by a seek",
    "a newer epoch merged instead of taken over",
    "a floor forgotten: claims what was not held",
    "a tombstone ignored",
    "pending acknowledgements not applied on arrival",
    "a cursor not rebuilt in a newer epoch",
    "a key sent to its new consumer at once",
    "an operator's skip takes one entry too many",
    "what an operator clears is not claimed",
    "a receipt more than may be at risk",
    "a target that lost its data believed complete",
    "an unknown replication backlog told as 0",
    "an entry confirmed when it is sent",
    "links forgotten when trimming",
    "ledger ids of a new disk begin at 1",
    "nothing trimmed",
    "progress published before it is durable",
    "an event acknowledged before it is durable",
]


def first_found(name: str, seeds: int) -> int | None:
    """Return the first seed that finds a mutant."""
    judged = judge_metadata if name in METADATA_MUTANTS else judge
    with mutated(name):
        return next((seed for seed in range(seeds) if judged(seed).violation), None)


@pytest.mark.parametrize("name", sorted(MUTANTS | METADATA_MUTANTS))
def test_every_mutant_replaces_what_the_code_has(name: str) -> None:
    with mutated(name):
        pass


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", QUICKLY_FOUND)
def test_mutants_are_found_within_a_few_seeds(name: str) -> None:
    assert first_found(name, SEEDS_MAX) is not None


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(MUTANTS | METADATA_MUTANTS))
def test_every_mutant_is_found(name: str) -> None:
    assert first_found(name, SEEDS_MAX) is not None
