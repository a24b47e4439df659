"""Time since which a subscription is not protected against the loss of this cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.world import Clock
    from magnetar.cursor.cursor import Cursor

UNPROTECTED_SINCE_PROPERTY = "magnetar.unprotected.since"
"""Cursor property: time since which a formerly replicated subscription is not replicated, in ms since the epoch."""


class ProtectionRecord:
    """Time since which the progress of a subscription is not sent, and the reason.

    The time is exact if this broker observed the change, also after a restart if the subscription was protected before.
    Otherwise it is a lower bound that starts when the topic was loaded.
    """

    def __init__(self, cursor: Cursor, clock: Clock, flush_soon: Callable[[], None], *, is_new: bool) -> None:
        """Create the record of a new (``is_new``) or loaded subscription; ``flush_soon`` writes its cursor."""
        self._cursor = cursor
        self._clock = clock
        self._flush_soon = flush_soon
        self.because: str | None = None
        """Reason; empty while progress is sent to the other clusters; None before the first update."""
        self.since = clock.now()
        self.at_least = not is_new
        stored = cursor.properties.get(UNPROTECTED_SINCE_PROPERTY)
        if stored is not None:
            self.since, self.at_least = stored / 1000, False

    def note(self, because: str) -> None:
        """Set the reason why progress is not sent; an empty reason means that it is sent."""
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
