"""Noticing that the wall clock jumped, before something is deleted for being old. Pure."""

from __future__ import annotations

TOLERANCE_S = 60.0
"""Seconds that wall clock and monotonic clock may drift apart without anybody minding."""

GRACE_S = 3600.0
"""Seconds for which a jump is doubted; whoever set the clock wrong has this long to set it right."""


class ClockWatch:
    """Compares the wall clock with the monotonic one.

    While the two are further apart than they were, by more than TOLERANCE_S, ages are not to be trusted. They are
    again when the wall clock is back where it should be, or when it has kept its new time for GRACE_S.
    """

    def __init__(self, now: float, monotonic: float) -> None:
        """Trust the wall clock as it is."""
        self._trusted_offset = now - monotonic
        self._doubted_since: float | None = None
        self._doubted_offset = 0.0

    def jump(self, now: float, monotonic: float) -> float:
        """Seconds by which the wall clock is off what is trusted, positive for ahead; 0.0 while it is trusted."""
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
