"""Naive twins of the rules about time: when an entry may expire, and where a seek to a publish time goes.

They know every entry by itself and share no code with the broker. Tests and the simulator compare the broker with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from magnetar.base.position import Position


DRIFTED_S = 0.5
"""How much too old entries may count because a broker's wall clock drifted while it was down."""


class Ages:
    """When each entry of one cluster's log became durable there, in seconds of that cluster's monotonic clock."""

    def __init__(self) -> None:
        """No entry is known."""
        self.appended_at: dict[Position, float] = {}

    def appended(self, position: Position, now: float) -> None:
        """Note an entry that became durable at ``now``."""
        self.appended_at[position] = now

    def too_young(self, is_expired: Callable[[Position], bool], age_s: float, now: float) -> list[Position]:
        """The expired entries that are not older than ``age_s`` at ``now``, ascending: there must be none."""
        return [
            position for position, at in sorted(self.appended_at.items()) if now - at <= age_s and is_expired(position)
        ]

    def old(self, age_s: float, now: float, seem_older: Sequence[tuple[float, float]] = ()) -> list[Position]:
        """The entries that may expire at ``now``, ascending. A broker may leave some of them for later.

        ``seem_older`` has moments and seconds: entries from before such a moment may seem older by so much.
        """
        return [
            position
            for position, at in sorted(self.appended_at.items())
            if now - at + sum(seconds for before, seconds in seem_older if at <= before) > age_s
        ]


def first_published_since(published_ms: Iterable[tuple[Position, int]], time_ms: int) -> Position | None:
    """Where a seek to ``time_ms`` goes: the first entry in the log that was published then or later; None: the end."""
    return next((position for position, at_ms in sorted(published_ms) if at_ms >= time_ms), None)
