"""Deliberate bugs, one at a time, that the simulation must find. One module for each theme."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.sim.mutants import (
    bit_rot,
    custody,
    dispatch,
    durability,
    expiry,
    fences,
    metasync,
    policies,
    progress,
    publishing,
    readers,
    replication,
    resting,
    runs,
    snapshots,
    storage,
    unsynced,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sim.mutants.base import Mutant

MUTANTS: dict[str, Mutant] = {}
for _theme in (
    replication,
    runs,
    progress,
    storage,
    publishing,
    dispatch,
    expiry,
    unsynced,
    snapshots,
    durability,
    readers,
    policies,
    bit_rot,
    resting,
    fences,
    custody,
):
    assert MUTANTS.keys().isdisjoint(_theme.MUTANTS), "each mutant has a name of its own"
    MUTANTS |= _theme.MUTANTS

METADATA_MUTANTS: dict[str, Mutant] = metasync.MUTANTS
"""Bugs in the metadata synchronizer, which the worlds of metadata must find."""

assert MUTANTS.keys().isdisjoint(METADATA_MUTANTS)


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Run with the given bug."""
    owner, attribute, make = (MUTANTS | METADATA_MUTANTS)[name]
    with patch.object(owner, attribute, make(getattr(owner, attribute))):
        yield
