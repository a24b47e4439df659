"""The delayed entries of a Shared subscription: they are skipped while they wait, and sent in the order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.parts import Part
from magnetar.broker.delayed.positions import PositionSet
from magnetar.broker.delayed.window import DueWindow
from magnetar.broker.reading.run_reader import RunReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.base.position import Position
    from magnetar.broker.dispatch.interfaces import DispatchedEntries
    from magnetar.cursor.ranges import Range

STRETCHES_MAX = 1000
"""Number of ranges of withheld or acknowledged entries that one turn skips."""


class DelayedEntries(Part):
    """Determines for a dispatcher the next entries to read, and the due entries."""

    OWNS = ("_reader",)

    def __init__(
        self, unread: DispatchedEntries, is_held: Callable[[Position], bool], ready: Callable[[], None]
    ) -> None:
        """``is_held``: whether the dispatcher has an entry. ``ready`` is called when ``due`` may have changed."""
        self._unread = unread
        self._index = unread.topic.delayed
        self._is_held = is_held
        self._reader = RunReader(
            unread.topic.ledger,
            ready,
            unread.topic.log.note_damage,
            unread.environment.memory,
            max_bytes=unread.environment.config.dispatcherMaxReadSizeBytes,
        )
        self._window = DueWindow()
        self._in_hand: list[Position] = []
        """Due entries that were taken from the window and not sent yet, in the order of their times."""
        self._ahead = PositionSet()
        """Due entries after the dispatcher's read position; skipped when reading reaches them."""
        self._parked = PositionSet()
        """Due entries that would cause more holes, set aside while acknowledgements are at their limit of holes."""
        self._index.attach(self._window)

    @property
    def is_ready(self) -> bool:
        """Whether the delayed entries are known."""
        return not self._index.is_loading

    @property
    def is_used(self) -> bool:
        """Whether there may be delayed entries."""
        return self._index.is_used

    @property
    def in_hand(self) -> Iterator[Position]:
        """Yield the due entries that are about to be sent."""
        return iter(self._in_hand)

    @property
    def may_have_more(self) -> bool:
        """Whether there may be more due entries now."""
        is_due_later = self._window.next_due_ms is not None and not self._window.is_awaited
        return bool(self._in_hand or self._parked) or is_due_later

    def has_sent(self, now_ms: int) -> bool:
        """Return whether all entries that are due were sent."""
        return not (self._in_hand or self._parked) and self._window.has_taken(now_ms)

    def readable(self, position: Position, limit: int) -> tuple[Position, list[Range]]:
        """Return the position from which reading continues after ``position``, and at most ``limit`` entries to read.

        All entries before that position are acknowledged or withheld.
        """
        withheld, ahead = self._index.withheld, self._ahead
        for _ in range(STRETCHES_MAX):
            position = ahead.first_absent(withheld.first_absent(position))
            ranges = self._unread.readable(position, limit)
            if not ranges:
                return position, []
            if not withheld and not ahead:
                return ranges[0].first, ranges
            left = [part for each in ranges for between in withheld.absent(each) for part in ahead.absent(between)]
            if left:
                return left[0].first, left
            position = ranges[-1].last._replace(entry_id=ranges[-1].last.entry_id + 1)
        self._unread.topic.notify()
        return position, []

    def withhold(self, position: Position, deliver_at_ms: int) -> None:
        """Withhold an entry that the dispatcher has read, until it is due."""
        self._index.withhold(position, deliver_at_ms)

    def due(self, read_position: Position, limit: int) -> list[tuple[Position, bytes]] | None:
        """Return the next due entries, all of one ledger; None if there are none, or to ask again when ready."""
        if not self.is_used:
            return None
        if self._ahead:
            self._ahead.discard_before(read_position)
        sendable = self._take(read_position, limit)
        entries = self._reader.read(sendable) if sendable else None
        if entries is None:
            return None
        sent = {position for position, _ in entries}
        self._in_hand = [position for position in self._in_hand if position not in sent]
        return entries

    def give_back(self, entries: list[tuple[Position, bytes]]) -> None:
        """Take back due entries that could not be sent."""
        self._in_hand[:0] = [position for position, _ in entries]

    def close(self) -> None:
        """Stop."""
        self._reader.close()
        self._index.detach(self._window)

    def _take(self, read_position: Position, limit: int) -> list[Position]:
        """Take due entries until ``limit`` of them can be sent, and drop acknowledged ones; return the former.

        While acknowledgements are at their limit of holes, entries that would cause more holes are set aside.
        """
        through = self._unread.readable_through()
        self._in_hand = list(filter(self._is_there, self._in_hand))
        self._park(through)
        if self._parked and len(self._in_hand) < limit:
            unparked = self._parked.take_through(through, limit - len(self._in_hand))
            self._in_hand += filter(self._is_there, unparked)
        while len(self._in_hand) < limit:
            taken = self._index.due(self._window, limit - len(self._in_hand))
            if not taken:
                break
            for position in taken:
                is_taken = position in self._in_hand or position in self._parked or self._is_held(position)
                if not is_taken and self._is_there(position):
                    self._in_hand.append(position)
                    if position >= read_position:
                        self._ahead.add(position)
            self._park(through)
        return self._in_hand[:limit]

    def _park(self, through: Position) -> None:
        """Set aside the entries after ``through``."""
        for position in self._in_hand:
            if position > through:
                self._parked.add(position)
        self._in_hand = [position for position in self._in_hand if position <= through]

    def _is_there(self, position: Position) -> bool:
        """Return whether the entry exists and still has to be sent."""
        contains = self._unread.topic.ledger.contains(position)
        return contains and not self._unread.is_finished(position)
