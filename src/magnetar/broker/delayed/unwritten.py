"""Delayed entries that are to be written to the store, as many as memory has room for."""

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
"""Entries that are written at once."""

UNWRITTEN_MAX = 16 * WRITE_AFTER_ENTRIES
"""Entries kept in memory while they cannot be written; beyond it they are found in the log again later."""


class UnwrittenEntries:
    """The entries, in the order in which they came. Beyond ``UNWRITTEN_MAX`` all are given up: the log has them."""

    def __init__(self, ledger: ManagedLedger) -> None:
        """There are none."""
        self._ledger = ledger
        self._entries: list[Delayed] = []
        self.given_up_after = LATEST
        """Before all entries that were given up: the log has to be gone through from there.

        That may be far below the watermark, since a reader adds again what a clock that went back made early again.
        """

    def __len__(self) -> int:
        """How many there are."""
        return len(self._entries)

    @property
    def are_many(self) -> bool:
        """Whether they should be written without waiting for more."""
        return len(self._entries) >= WRITE_AFTER_ENTRIES

    @property
    def leave_room(self) -> bool:
        """Whether more of the log may be gone through."""
        return len(self._entries) <= UNWRITTEN_MAX // 2

    @property
    def has_gap(self) -> bool:
        """Whether entries were given up that have not been looked for in the log since."""
        return self.given_up_after < LATEST

    def add(self, entry: Delayed) -> None:
        """Put an entry behind all others."""
        self._entries.append(entry)
        if len(self._entries) > UNWRITTEN_MAX:
            self._give_up()

    def take(self) -> list[Delayed]:
        """Take all."""
        entries, self._entries = self._entries, []
        return entries

    def put_back(self, entries: Sequence[Delayed]) -> None:
        """Entries that were taken could not be written."""
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
        """Return after which position the log has to be gone through, which will be done; LATEST: there is no gap."""
        after, self.given_up_after = self.given_up_after, LATEST
        return after
