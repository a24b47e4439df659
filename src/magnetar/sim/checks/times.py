"""Simple versions of the rules about time: the expiry of entries, and the position of a publish time.

They store a time for each entry and share no code with the broker. Tests and the simulator compare the broker with
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from magnetar.base.position import Position


DRIFTED_S = 0.5
"""Maximum error of an age, in seconds, because a broker's wall clock drifted while it was down."""


class Ages:
    """The times at which the entries of one cluster's log became durable, in seconds of its monotonic clock."""

    def __init__(self) -> None:
        """Begin without entries."""
        self.appended_at: dict[Position, float] = {}

    def appended(self, position: Position, now: float) -> None:
        """Add an entry that became durable at ``now``."""
        self.appended_at[position] = now

    def too_young(self, is_expired: Callable[[Position], bool], age_s: float, now: float) -> list[Position]:
        """Return the expired entries not older than ``age_s`` at ``now``, ascending: there must be none."""
        return [
            position for position, at in sorted(self.appended_at.items()) if now - at <= age_s and is_expired(position)
        ]

    def old(self, age_s: float, now: float, seem_older: Sequence[tuple[float, float]] = ()) -> list[Position]:
        """Return the entries that may expire at ``now``, ascending. A broker may leave some of them for later.

        ``seem_older`` has moments and offsets in seconds: entries from before a moment may seem older by its offset.
        """
        return [
            position
            for position, at in sorted(self.appended_at.items())
            if now - at + sum(seconds for before, seconds in seem_older if at <= before) > age_s
        ]


def first_published_since(published_ms: Iterable[tuple[Position, int]], time_ms: int) -> Position | None:
    """Return the first position published at or after ``time_ms``, the target of a seek; None: the end of the log."""
    return next((position for position, at_ms in sorted(published_ms) if at_ms >= time_ms), None)
