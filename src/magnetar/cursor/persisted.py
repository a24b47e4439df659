"""What is persisted of more acknowledgements than may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.cursor.ranges import DeletedEntries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.position import Position
    from magnetar.cursor.ranges import Range
    from magnetar.cursor.state import CursorState


class PersistedEntries:
    """The deleted entries that are persisted, while there are more ranges than the limit.

    A range is persisted whole or not at all. One that is stays so, since nothing is taken out of a log; the excess is
    what came last, and it goes in, lowest first, as soon as there is room.
    """

    def __init__(self, entries: DeletedEntries, ranges_max: int) -> None:
        """Begin with ``entries``, of each range all or none, which may be more than ``ranges_max`` already."""
        self.entries = entries
        self._ranges_max = ranges_max

    def admit(self, deleted: DeletedEntries, newly: Iterable[Range]) -> DeletedEntries:
        """Take in what fits, now that ``newly`` are in ``deleted``, which holds all; returns what to write.

        What touches a persisted range always fits, for it makes no further one.
        """
        added = DeletedEntries()
        for stretch in newly:
            if stretch.last in deleted:
                self._admit(deleted, stretch.last, added)
        if self.entries.runs < self._ranges_max and self.entries.entries < deleted.entries:
            for stretch in deleted.missing_in(self.entries):
                if self.entries.runs >= self._ranges_max:
                    break
                self._admit(deleted, stretch.last, added)
        return added

    def _admit(self, deleted: DeletedEntries, position: Position, added: DeletedEntries) -> None:
        if position in self.entries:
            return
        run = deleted.run_of(position)
        if self.entries.runs < self._ranges_max or self.entries.holds_any(run):
            for part in self.entries.add_range(run):
                added.add_range(part)


class PersistedBatches:
    """Which partly acknowledged batches are persisted as they are now, and which are not because of the limit."""

    def __init__(self, batches_max: int) -> None:
        """All are persisted."""
        self.excess: dict[Position, None] = {}
        """Those that are not, in the order in which they came."""
        self._batches_max = batches_max
        self._count = 0

    def admit(self, state: CursorState, changed: Iterable[Position], *, everything: bool) -> list[Position]:
        """Choose which of the ``changed`` batches, and of the excess, are to be written; the rest is the excess."""
        candidates = [position for position in changed if state.remaining(position) is not None]
        count = state.partial_batches_count
        if not candidates and count == self._count and not everything:
            return []
        self._count = count
        seen = set(candidates)
        candidates += [each for each in self.excess if each not in seen and state.remaining(each) is not None]
        room = len(candidates) if everything else max(0, self._batches_max - (count - len(candidates)))
        self.excess = dict.fromkeys(candidates[room:])
        return candidates[:room]
