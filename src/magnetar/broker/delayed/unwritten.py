"""Delayed entries that wait to be written to the store, up to a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.base.position import LATEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.position import Position
    from magnetar.broker.delayed.window import Delayed
    from magnetar.ledger.managed_ledger import ManagedLedger

log = structlog.get_logger(__name__)

WRITE_AFTER_ENTRIES = 4096
"""Entries per write."""

UNWRITTEN_MAX = 16 * WRITE_AFTER_ENTRIES
"""Maximum number of entries in memory while they cannot be written; dropped entries are found in the log later."""


class UnwrittenEntries:
    """The entries, in order of arrival. Beyond ``UNWRITTEN_MAX`` all are dropped, since the log has them."""

    def __init__(self, ledger: ManagedLedger) -> None:
        """Create it without entries."""
        self._ledger = ledger
        self._entries: list[Delayed] = []
        self.given_up_after = LATEST
        """Position before all dropped entries, from which the log must be searched.

        It may be far below the watermark, because readers add old entries again after the clock was set back.
        """

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    @property
    def are_many(self) -> bool:
        """Whether the entries should be written without waiting for more."""
        return len(self._entries) >= WRITE_AFTER_ENTRIES

    @property
    def leave_room(self) -> bool:
        """Whether the search of the log may continue."""
        return len(self._entries) <= UNWRITTEN_MAX // 2

    @property
    def has_gap(self) -> bool:
        """Whether there are dropped entries that were not searched for in the log yet."""
        return self.given_up_after < LATEST

    def add(self, entry: Delayed) -> None:
        """Append an entry."""
        self._entries.append(entry)
        if len(self._entries) > UNWRITTEN_MAX:
            self._give_up()

    def take(self) -> list[Delayed]:
        """Take all."""
        entries, self._entries = self._entries, []
        return entries

    def put_back(self, entries: Sequence[Delayed]) -> None:
        """Return entries that could not be written."""
        self._entries = [*entries, *self._entries]
        if len(self._entries) > UNWRITTEN_MAX:
            self._give_up()

    def _give_up(self) -> None:
        has_gap = self.has_gap
        first = min(entry.position for entry in self._entries)
        self.given_up_after = min(self.given_up_after, self._ledger.previous_position(first))
        self._entries.clear()
        if not has_gap:
            log.warning("delayed_index_behind", topic=self._ledger.name, after=str(self.given_up_after))

    def take_gap(self) -> Position:
        """Return the position after which the log must be searched, and expect that search; LATEST: none is needed."""
        after, self.given_up_after = self.given_up_after, LATEST
        return after
