"""The rate of work that is left, and the time until it is done. Pure."""

from __future__ import annotations

from collections import deque

WINDOW_S = 30.0
"""The rate is that of this many seconds."""


class Pace:
    """Observes how much is left."""

    def __init__(self) -> None:
        """Begin without observations."""
        self._seen: deque[tuple[float, int]] = deque()

    def observe(self, now: float, left: int) -> None:
        """Add an observation."""
        self._seen.append((now, left))
        while len(self._seen) > 2 and now - self._seen[1][0] >= WINDOW_S:  # noqa: PLR2004 - a rate has two ends
            self._seen.popleft()

    @property
    def per_second(self) -> float | None:
        """How much is done in a second; negative: it grows. None: unknown."""
        if len(self._seen) < 2 or self._seen[-1][0] <= self._seen[0][0]:  # noqa: PLR2004 - a rate has two ends
            return None
        (began, before), (now, left) = self._seen[0], self._seen[-1]
        return (before - left) / (now - began)

    @property
    def eta_s(self) -> float | None:
        """Seconds until nothing is left at this rate; None: unknown, or never."""
        rate = self.per_second
        if not self._seen or rate is None:
            return None
        left = self._seen[-1][1]
        if left == 0:
            return 0.0
        return left / rate if rate > 0 else None
