"""Bugs of deduplication."""

# ruff: noqa: ANN401 - a mutant takes the place of anything

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.broker.deduplication import Deduplication
from magnetar.broker.sequence_ids import SequenceIds

if TYPE_CHECKING:
    from tests.sim.mutants.base import Mutant


def replicated_sequence_ids_forgotten(_: Any) -> Any:
    return lambda _self, _metadata, _entries: {}


def sequence_ids_not_replayed(original: Any) -> Any:
    def mutant(self: SequenceIds, name: str, highest: int, now: float) -> None:
        if name in self._under_way or name in self._connected:
            original(self, name, highest, now)

    return mutant


MUTANTS: dict[str, Mutant] = {
    "sequence ids of other clusters' entries forgotten": (
        Deduplication,
        "replicating",
        replicated_sequence_ids_forgotten,
    ),
    "sequence ids not replayed from the log": (SequenceIds, "replay", sequence_ids_not_replayed),
}
