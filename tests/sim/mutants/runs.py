"""Bugs in runs of entries on links."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.base.position import Position
from magnetar.broker.replication import stamped_run
from magnetar.broker.replication.outbound.frames import InCustody, LinkFrames
from magnetar.pipeline.reading import source_cluster
from magnetar.pipeline.rows import Carried
from magnetar.wire.message_id import Link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.wire.entries.origin import Origin
    from tests.sim.mutants.base import Mutant


def without_check(original: Any) -> Any:
    def mutant(self: LinkFrames, position: Position, link: Link, entry: bytes) -> None:
        last = self._last
        follows = bool(self._entries) and position > last
        original(
            self,
            Position(last.ledger_id, last.entry_id + 1) if follows else position,
            Link(last, last) if follows else link,
            entry,
        )

    return mutant


def first_position(_: Any) -> Any:
    return property(lambda self: self.position)


def one_position(original: Any) -> Any:
    def mutant(entries: Sequence[bytes], first: Origin) -> Any:
        found = [original([entry], first) for entry in entries]
        return None if None in found else ([each[0][0] for each in found], len(found))

    return mutant


def of_the_source(_: Any) -> Any:
    return lambda _message: None


def first_of_the_extent(_: Any) -> Any:
    return lambda self, _position: self.extent.origin_first


MUTANTS: dict[str, Mutant] = {
    "a run over entries that are for others": (LinkFrames, "add", without_check),
    "a run confirmed with its first entry": (Carried, "last", first_position),
    "a run in custody taken for entries of the source": (source_cluster, "origin_of", of_the_source),
    "a run in custody at the place of the first one": (InCustody, "at", first_of_the_extent),
    "all entries of a run stamped with the position of the first": (stamped_run, "stamp_plain", one_position),
}
