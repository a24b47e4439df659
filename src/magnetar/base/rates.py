"""Rates from counters that only grow."""

from __future__ import annotations


class Rates:
    """Increase per second of some counters, between the last two updates."""

    __slots__ = ("_at", "_counters", "per_second")

    def __init__(self, count: int) -> None:
        """Start with rates of 0 for ``count`` counters."""
        self._at: float | None = None
        self._counters: tuple[int, ...] = ()
        self.per_second: tuple[float, ...] = (0.0,) * count
        """Rates of the counters, in the order of ``update``."""

    def update(self, now: float, *counters: int) -> None:
        """Update with the counters' values at ``now`` (monotonic seconds)."""
        if self._at is not None and now > self._at:
            elapsed_s = now - self._at
            if counters == self._counters:  # most owners are idle
                self.per_second = (0.0,) * len(counters)
            else:  # a smaller value means that the owner of the counter was created again
                self.per_second = tuple(
                    [max(0, new - old) / elapsed_s for new, old in zip(counters, self._counters, strict=True)]
                )
        self._at, self._counters = now, counters
