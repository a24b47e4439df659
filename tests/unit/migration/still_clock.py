"""A clock that stands still."""

from __future__ import annotations

NOW = 1_000.0


class StillClock:
    """See magnetar.base.world.Clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return NOW

    def monotonic(self) -> float:
        """Seconds since some start."""
        return 0.0

    def boot(self) -> str:
        """Nothing is known."""
        return ""
