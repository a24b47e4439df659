"""Bugs in the handling of damaged entries."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.base.position import Position
from magnetar.broker.replication.outbound.own_entries import OwnEntries
from magnetar.broker.subscription.acknowledger import Acknowledger
from magnetar.ledger.segments import segment

if TYPE_CHECKING:
    from magnetar.base.errors import DamagedEntriesError
    from magnetar.cursor.ranges import Range
    from tests.sim.mutants.base import Mutant


def damaged_entries_acknowledged(_: Any) -> Any:
    def mutant(self: Acknowledger, through: Position) -> list[Range]:
        return self._cursor.acknowledge_cumulative(through)

    return mutant


def link_goes_on(_: Any) -> Any:
    def mutant(self: OwnEntries, error: DamagedEntriesError) -> None:
        self._topic.log.note_damage(error)
        self._skip_to(Position(error.ledger_id, error.end))

    return mutant


def start_refused(_: Any) -> Any:
    return lambda _data, _at, _segment, _offset: None


MUTANTS: dict[str, Mutant] = {
    "damaged entries acknowledged with those behind them": (
        Acknowledger,
        "_intact",
        damaged_entries_acknowledged,
    ),
    "a link goes past a damaged entry by itself": (OwnEntries, "_stop_at", link_goes_on),
    "a damaged entry refuses the start": (segment, "decode_damaged", start_refused),
}
