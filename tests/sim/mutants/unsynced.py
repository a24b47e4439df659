"""Bugs in a log with unsynced entries, and in rewriting after a failed sync."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from magnetar.geo.origins.index import OriginIndex
from magnetar.ledger import agreement
from magnetar.ledger.medium import local
from magnetar.ledger.medium.local_segment import LocalOpenSegment
from magnetar.ledger.shared_log.log import Log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from magnetar.base.position import Position
    from magnetar.base.world import Files
    from magnetar.ledger.agreement import LostEntries
    from magnetar.ledger.shared_log.log import Operation
    from tests.sim.mutants.base import Mutant


def control_records_not_synced(original: Any) -> Any:
    async def mutant(self: Log, operations: Sequence[Operation]) -> None:
        skipped = nullcontext() if self._sync else patch.object(LocalOpenSegment, "_sync", lambda _segment: None)
        with skipped:
            await original(self, operations)

    return mutant


def losses_not_accepted(_: Any) -> Any:
    def mutant(_stored: dict[str, Any], _length_of: Mapping[int, int]) -> list[LostEntries]:
        return []

    return mutant


def claims_across_a_loss(_: Any) -> Any:
    def mutant(_self: OriginIndex, previous: Position, _first: Position) -> Position:
        return previous

    return mutant


def tail_not_written_again(_: Any) -> Any:
    def mutant(files: Files, path: Path, content: bytes) -> None:
        file = files.open(path)
        file.truncate(len(content))
        file.sync()
        file.close()

    return mutant


MUTANTS: dict[str, Mutant] = {
    "control records not synced where entries are not": (Log, "commit", control_records_not_synced),
    "the loss of entries that were not synced not accepted": (agreement, "shorten", losses_not_accepted),
    "claims go across entries that were lost without syncs": (OriginIndex, "_behind_loss", claims_across_a_loss),
    "an unsealed segment not written again": (local, "write_again", tail_not_written_again),
}
