"""Detection of jumps of the wall clock, before entries are deleted because of their age. Pure."""

from __future__ import annotations

TOLERANCE_S = 60.0
"""Maximum drift in seconds between the wall clock and the monotonic clock."""

GRACE_S = 3600.0
"""Seconds after which a jump is accepted. An operator has this time to correct a wrong clock."""


class ClockWatch:
    """Compares the wall clock with the monotonic clock.

    The wall clock is untrusted while its distance from the monotonic clock differs from the trusted one by more than
    TOLERANCE_S. It is trusted again when the difference is gone, or when it has kept the new time for GRACE_S.
    """

    def __init__(self, now: float, monotonic: float) -> None:
        """Trust the current wall clock."""
        self._trusted_offset = now - monotonic
        self._doubted_since: float | None = None
        self._doubted_offset = 0.0

    def jump(self, now: float, monotonic: float) -> float:
        """Return the untrusted jump in seconds, positive if the wall clock is ahead; 0.0 while the clock is trusted."""
        offset = now - monotonic
        off = offset - self._trusted_offset
        if abs(off) <= TOLERANCE_S:
            self._trusted_offset, self._doubted_since = offset, None
            return 0.0
        if self._doubted_since is None or abs(offset - self._doubted_offset) > TOLERANCE_S:
            self._doubted_since, self._doubted_offset = monotonic, offset
        if monotonic - self._doubted_since >= GRACE_S:
            self._trusted_offset, self._doubted_since = offset, None
            return 0.0
        return off
