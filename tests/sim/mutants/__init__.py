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

MUTANTS: dict[str, Mutant] = {
    **replication.MUTANTS,
    **runs.MUTANTS,
    **progress.MUTANTS,
    **storage.MUTANTS,
    **publishing.MUTANTS,
    **dispatch.MUTANTS,
    **expiry.MUTANTS,
    **unsynced.MUTANTS,
    **snapshots.MUTANTS,
    **durability.MUTANTS,
    **readers.MUTANTS,
    **policies.MUTANTS,
    **bit_rot.MUTANTS,
    **resting.MUTANTS,
    **fences.MUTANTS,
    **custody.MUTANTS,
}

METADATA_MUTANTS: dict[str, Mutant] = metasync.MUTANTS
"""Bugs in the metadata synchronizer, which the worlds of metadata must find."""


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Run with the given bug."""
    owner, attribute, make = (MUTANTS | METADATA_MUTANTS)[name]
    with patch.object(owner, attribute, make(getattr(owner, attribute))):
        yield
