"""Position of a link's target: the newest own entry that the target has confirmed, and whether it still holds it.

The position is stored with the replication cursor. It is *unknown* whether the target still holds it after the topic is
loaded, and after the link has lost its holder, until the target has answered an entry of the current holder. Otherwise
a target that lost its disk would count as complete until the next message is published. The position of a target that
never confirmed an entry is always known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST, Position
from magnetar.wire.links import TARGET_PROPERTY

if TYPE_CHECKING:
    from magnetar.base.world import Clock
    from magnetar.cursor.cursor import Cursor

UNFILLED = "magnetar.unfilled"
"""Cursor property: newest entry that the target lacks and that was trimmed here before it could be sent again."""


class _Moment(NamedTuple):
    wall: float
    monotonic: float


class TargetPosition:
    """Position of the target of one link. Changes are durable with the next flush of the replication cursor."""

    def __init__(self, cursor: Cursor, clock: Clock) -> None:
        """Create it; unknown until ``confirm``."""
        self._cursor = cursor
        self._clock = clock
        self.held = _read(cursor, TARGET_PROPERTY)
        """Newest entry that the target has confirmed, EARLIEST without one; None in data of an older release."""
        if self.held is None and cursor.state.mark_delete_position == cursor.began:
            self._set_held(EARLIEST)
        self.unfilled_through = _read(cursor, UNFILLED)
        """Newest entry that the target lacks and that cannot be sent any more; None without one."""
        self._lost: _Moment | None = _Moment(clock.now(), clock.monotonic())

    @property
    def is_known(self) -> bool:
        """Whether the target has confirmed its position since the last time without a holder."""
        return self._lost is None or self.held == EARLIEST

    @property
    def unknown_since(self) -> float | None:
        """Time since which the position is unknown, in seconds since the epoch; None while it is known."""
        return None if self._lost is None or self.is_known else self._lost.wall

    @property
    def unknown_from(self) -> float | None:
        """``unknown_since`` on the monotonic clock."""
        return None if self._lost is None or self.is_known else self._lost.monotonic

    def to_verify(self, newest_before: Position) -> Position:
        """Return the entry that the target must still hold; EARLIEST if there is none.

        ``newest_before`` is the newest own entry before the cursor, the only information in data of older releases.
        """
        return newest_before if self.held is None else self.held

    def confirmed_before(self, position: Position) -> Position | None:
        """Return the newest confirmed entry if the target lacks no entry up to ``position``.

        None if that is not known for any entry.
        """
        if self.held is None or not EARLIEST < self.held <= position:
            return None
        return self.held if self.unfilled_through is None or self.unfilled_through <= self.held else None

    def lose(self) -> None:
        """Mark the position as unknown, because the link has no holder."""
        if self._lost is None:
            self._lost = _Moment(self._clock.now(), self._clock.monotonic())

    def confirm(self) -> bool:
        """Note that the target answered the current holder; return whether the position was unknown before."""
        was_unknown, self._lost = not self.is_known, None
        return was_unknown

    def advance(self, position: Position) -> None:
        """Note that the target confirmed the entry at ``position``, and thus all before it."""
        if self.held is None or position > self.held:
            self._set_held(position)

    def go_back(self, held: Position, unfilled_through: Position | None) -> None:
        """Note that the target holds no entry after ``held``; entries up to ``unfilled_through`` cannot be sent."""
        self._set_held(held)
        self.unfilled_through = unfilled_through
        _write(self._cursor, UNFILLED, unfilled_through)

    def _set_held(self, position: Position) -> None:
        self.held = position
        _write(self._cursor, TARGET_PROPERTY, position)


def _read(cursor: Cursor, name: str) -> Position | None:
    ledger_id, entry_id = cursor.properties.get(f"{name}.ledger"), cursor.properties.get(f"{name}.entry")
    return None if ledger_id is None or entry_id is None else Position(ledger_id, entry_id)


def _write(cursor: Cursor, name: str, position: Position | None) -> None:
    ledger_id, entry_id = (None, None) if position is None else position
    if cursor.properties.get(f"{name}.ledger") != ledger_id:
        cursor.set_property(f"{name}.ledger", ledger_id)
    if cursor.properties.get(f"{name}.entry") != entry_id:
        cursor.set_property(f"{name}.entry", entry_id)
