"""Damaged entries that an operator let a link go past: which, for which link, kept with the topic.

A link that stops at a damaged entry waits until somebody decides. The decision is kept for the link's target, because
the link may come to the same entries again: after a restart, or when the target lost its disk. It holds for entries
that cannot be read and for nothing else: an entry that can be read again is sent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.base.position import Position
from magnetar.cursor.ranges import DeletedEntries, Range

if TYPE_CHECKING:
    from magnetar.ledger.managed_ledger import ManagedLedger

SKIPPED_PROPERTY: Final = "magnetar.skipped"
"""Managed-ledger property: for each target cluster a list of [ledger id, first entry id, last entry id], as JSON."""

SKIPPED_RANGES_MAX: Final = 1_000
"""Ranges of skipped entries that a topic keeps, for all its links together. Beyond it a further skip is refused."""


class SkippedEntries:
    """The skipped entries of one topic's links. Used on the event loop's thread."""

    def __init__(self, ledger: ManagedLedger) -> None:
        """Read what is kept."""
        self._ledger = ledger
        self._by_target: dict[str, DeletedEntries] = {}
        stored: dict[str, list[list[int]]] = json.loads(ledger.properties.get(SKIPPED_PROPERTY, "{}"))
        for target, ranges in stored.items():
            entries = self._by_target[target] = DeletedEntries()
            for ledger_id, first, last in ranges:
                entries.add_range(Range(Position(ledger_id, first), Position(ledger_id, last)))

    def of(self, target: str) -> list[Range]:
        """The ranges that the link to ``target`` goes past, ascending, both ends included."""
        return list(self._by_target.get(target, ()))

    def through(self, target: str, damaged: Range) -> Position | None:
        """How far the link to ``target`` may go past ``damaged``: a position in it; None: it stops at the first."""
        skipped = self._by_target.get(target)
        if skipped is None or damaged.first not in skipped:
            return None
        return min(damaged.last, skipped.run_end(damaged.first))

    def add(self, target: str, wanted: Range) -> None:
        """Let the link to ``target`` go past ``wanted``, a range of one ledger; durable on return.

        Ranges in ledgers that were trimmed are dropped. Raises RequestError at the limit.
        """
        kept: dict[str, DeletedEntries] = {}
        for name in sorted({*self._by_target, target}):
            entries = kept[name] = DeletedEntries()
            for each in self.of(name):
                if self._ledger.entries_in(each.first.ledger_id):
                    entries.add_range(each)
        kept[target].add_range(wanted)
        listed = {
            name: [[each.first.ledger_id, each.first.entry_id, each.last.entry_id] for each in entries]
            for name, entries in kept.items()
            if entries
        }
        if sum(map(len, listed.values())) > SKIPPED_RANGES_MAX:
            limit = Limit.SKIPPED_RANGES
            message = f"{self._ledger.name} keeps {SKIPPED_RANGES_MAX} skipped ranges; no more can be skipped ({limit})"
            raise RequestError(ServerError.NotAllowedError, message, limit)
        self._ledger.set_property(SKIPPED_PROPERTY, json.dumps(listed))
        self._by_target = kept
