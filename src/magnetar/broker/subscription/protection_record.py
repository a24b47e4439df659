"""Since when a subscription is not protected against the loss of this cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.world import Clock
    from magnetar.cursor.cursor import Cursor

UNPROTECTED_SINCE_PROPERTY = "magnetar.unprotected.since"
"""Cursor property: since when a subscription that was replicated is not, in milliseconds since the epoch."""


class ProtectionRecord:
    """Since when a subscription's progress goes nowhere, and why.

    Known to the moment where this broker saw it begin, also after a restart where it was protected before. Of a
    subscription that never was, nothing is kept: after a restart it is known to be so since then at least.
    """

    def __init__(self, cursor: Cursor, clock: Clock, flush_soon: Callable[[], None], *, is_new: bool) -> None:
        """Of a subscription that was created now (``is_new``), or loaded; ``flush_soon`` writes its cursor."""
        self._cursor = cursor
        self._clock = clock
        self._flush_soon = flush_soon
        self.because: str | None = None
        """Empty while its progress goes to the other clusters; None: not looked at yet."""
        self.since = clock.now()
        self.at_least = not is_new
        stored = cursor.properties.get(UNPROTECTED_SINCE_PROPERTY)
        if stored is not None:
            self.since, self.at_least = stored / 1000, False

    def note(self, because: str) -> None:
        """Its progress goes nowhere now, for this reason; or it goes to the other clusters, for none."""
        before, self.because = self.because, because
        cursor = self._cursor
        if before is None or bool(before) == bool(because):
            is_stale = not because and UNPROTECTED_SINCE_PROPERTY in cursor.properties
        else:
            self.since, self.at_least = self._clock.now(), False
            is_stale = True
        if is_stale and (because or UNPROTECTED_SINCE_PROPERTY in cursor.properties):
            cursor.set_property(UNPROTECTED_SINCE_PROPERTY, int(self.since * 1000) if because else None)
            self._flush_soon()
