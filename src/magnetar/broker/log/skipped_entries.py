"""Damaged entries that links skip by request of an operator, stored with the topic.

A link that reaches a damaged entry stops until an operator decides. The decision is stored for the link's target,
because the link may reach the same entries again, after a restart or after the target lost its disk. It applies only to
unreadable entries: an entry that becomes readable again is sent.
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
    from magnetar.metadata.store import OnDurable

SKIPPED_PROPERTY: Final = "magnetar.skipped"
"""Managed-ledger property: for each target cluster a list of [ledger id, first entry id, last entry id], as JSON."""

SKIPPED_RANGES_MAX: Final = 1_000
"""Maximum number of skipped ranges of a topic, over all its links. Further requests are refused."""


class SkippedEntries:
    """The skipped entries of one topic's links. Used on the event loop's thread."""

    def __init__(self, ledger: ManagedLedger) -> None:
        """Read the stored ranges."""
        self._ledger = ledger
        self._by_target: dict[str, DeletedEntries] = {}
        stored: dict[str, list[list[int]]] = json.loads(ledger.properties.get(SKIPPED_PROPERTY, "{}"))
        for target, ranges in stored.items():
            entries = self._by_target[target] = DeletedEntries()
            for ledger_id, first, last in ranges:
                entries.add_range(Range(Position(ledger_id, first), Position(ledger_id, last)))

    def of(self, target: str) -> list[Range]:
        """Return the ranges that the link to ``target`` skips, ascending, with inclusive bounds."""
        return list(self._by_target.get(target, ()))

    def through(self, target: str, damaged: Range) -> Position | None:
        """Return the last position in ``damaged`` that the link to ``target`` may skip; None if it may skip none."""
        skipped = self._by_target.get(target)
        if skipped is None or damaged.first not in skipped:
            return None
        return min(damaged.last, skipped.run_end(damaged.first))

    def add(self, target: str, wanted: Range, on_durable: OnDurable = lambda _: None) -> None:
        """Let the link to ``target`` skip ``wanted``, a range of one ledger.

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
            message = f"{self._ledger.name} has {SKIPPED_RANGES_MAX} skipped ranges, which is the maximum ({limit})"
            raise RequestError(ServerError.NotAllowedError, message, limit)
        self._ledger.set_property(SKIPPED_PROPERTY, json.dumps(listed), on_durable=on_durable)
        self._by_target = kept
