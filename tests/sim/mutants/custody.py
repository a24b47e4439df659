"""Bugs in the custody of entries of clusters that have left."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.broker.log.topic_log import TopicLog
from magnetar.broker.replication import receiver
from magnetar.broker.replication.outbound.copies import Copies
from magnetar.broker.replication.outbound.custody import Custody

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from tests.sim.mutants.base import Mutant


def one_entry_too_late(original: Any) -> Any:
    def mutant(self: Custody, origin: str, position: Position) -> None:
        original(self, origin, position)
        extent = self._next()
        if extent is not None:
            self._read = extent.local_first

    return mutant


def position_of_the_source(_: Any) -> Any:
    return lambda _source, _refusal: None


def nothing_kept(_: Any) -> Any:
    return property(lambda _copies: False)


def always_new(_: Any) -> Any:
    return lambda _log, _position: False


MUTANTS: dict[str, Mutant] = {
    "the first entry in custody left out": (Custody, "send_again_after", one_entry_too_late),
    "a gap in entries in custody told as one of the source": (
        receiver,
        "held_of_other",
        position_of_the_source,
    ),
    "deleted entries of a cluster that returns not sent back": (Copies, "_is_custodian", nothing_kept),
    "entries sent back stored where they were not deleted": (TopicLog, "has_published", always_new),
}
