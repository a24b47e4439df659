"""What is persisted of more acknowledgements than may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.cursor.ranges import DeletedEntries
from magnetar.cursor.records import entries_beyond

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.position import Position
    from magnetar.cursor.limits import CursorLimits
    from magnetar.cursor.ranges import Range
    from magnetar.cursor.records import Change
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


class PersistedState:
    """The part of a cursor's state that is persisted: all of it, unless it exceeds a limit."""

    def __init__(self, limits: CursorLimits) -> None:
        """All is persisted."""
        self.everything = False
        """Whether the limits are not applied, because the owner of the cursor sees to it that they are kept."""
        self.excess_entries = 0
        """Entries whose acknowledgement is beyond the limit as of the last record."""
        self._ranges_max = limits.unacked_ranges_max
        self._entries: PersistedEntries | None = None  # None: all that was written is
        self._batches = PersistedBatches(limits.batch_deleted_max)

    @property
    def excess_batches(self) -> int:
        """Batches acknowledged in part of which the latest is beyond the limit."""
        return len(self._batches.excess)

    def admit(self, state: CursorState, change: Change) -> tuple[DeletedEntries, list[Position]]:
        """Return the deleted entries and the batches that a delta is to hold after ``change``.

        They are what is new or, around a limit, what fits.
        """
        added = self._admit_entries(state, change)
        return added, self._batches.admit(state, change.partial, everything=self.everything)

    def whole(self, state: CursorState) -> tuple[DeletedEntries, list[tuple[Position, int]]]:
        """Return the deleted entries and the batches that a checkpoint is to hold, after ``admit``."""
        deleted = state.individually_deleted if self._entries is None else self._entries.entries
        return deleted, [each for each in state.partial_batches() if each[0] not in self._batches.excess]

    def _admit_entries(self, state: CursorState, change: Change) -> DeletedEntries:
        mark, deleted = state.mark_delete_position, state.individually_deleted
        exceeding = deleted.runs > self._ranges_max and not self.everything
        persisted = self._entries
        if persisted is None and not exceeding:
            return entries_beyond(mark, change.deleted)
        if persisted is None or change.replaced:
            before = DeletedEntries() if change.replaced else deleted.minus(entries_beyond(mark, change.deleted))
            persisted = PersistedEntries(before, self._ranges_max)
        persisted.entries.discard_through(mark)
        added = deleted.minus(persisted.entries) if self.everything else persisted.admit(deleted, change.deleted)
        self._entries = persisted if exceeding else None
        self.excess_entries = deleted.entries - persisted.entries.entries if exceeding else 0
        return added
