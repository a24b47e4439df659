"""Lag of a link's target, and the time since which it has confirmed nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.broker.log.interfaces import LoggedTopic
    from magnetar.broker.replication.outbound.target_position import TargetPosition
    from magnetar.cursor.cursor import Cursor


class LinkLag:
    """The lag of one link. Used on the event loop's thread."""

    def __init__(self, topic: LoggedTopic, cursor: Cursor, target_position: TargetPosition) -> None:
        """Create it; the link has no holder yet."""
        self._topic = topic
        self._ledger = topic.ledger
        self._environment = topic.environment
        self._cursor = cursor
        self._target_position = target_position
        now = self._environment.clock.now()
        self.uncarried_since: float | None = now
        """Time since which the link has no holder; None while it has one."""
        self.steady_since = now
        """Time at which the target last caught up, after a delay or after a time without a holder."""
        self._advanced_at = self._environment.clock.monotonic()
        self._awaited: tuple[Position, float] | None = None
        """A position that the target has not confirmed, and a monotonic time at which it was durable."""

    # -- entries ------------------------------------------------------------------------------------------------

    @property
    def backlog(self) -> int | None:
        """Number of own entries that the target does not hold; None: unknown."""
        return self.unconfirmed if self._target_position.is_known else None

    @property
    def unconfirmed(self) -> int:
        """Number of own entries after the cursor, not sent or not confirmed yet."""
        confirmed, last = self._cursor.state.mark_delete_position, self._ledger.last_confirmed_entry
        return self._topic.log.index.count_own(self._environment.cluster, confirmed, last) if confirmed < last else 0

    @property
    def oldest_unconfirmed(self) -> Position | None:
        """First own entry that the target has not confirmed."""
        confirmed, last = self._cursor.state.mark_delete_position, self._ledger.last_confirmed_entry
        if confirmed >= last:
            return None
        extents = self._topic.log.index.own_extents(confirmed, last, self._environment.cluster)
        return next((extent.local_first for extent in extents), None)

    def delay_s(self) -> int | None:
        """Age of the oldest unconfirmed entry in seconds, 0 if there is none, None if it is unknown."""
        if not self._target_position.is_known:
            return None
        position = self.oldest_unconfirmed
        age_s = 0.0 if position is None else self._age_s(position)
        return None if age_s is None else int(age_s)

    def oldest_age_s(self) -> float | None:
        """Age of the oldest unconfirmed entry in seconds, since this cluster stored it; see ``is_oldest_age_exact``.

        None if there is none, and for an entry from before a crash, whose append time was not recorded.
        """
        position = self.oldest_unconfirmed
        return None if position is None else self._age_s(position)

    def _age_s(self, position: Position) -> float | None:
        return self._ledger.age_of(position) if self._ledger.has_recorded(position) else None

    @property
    def is_oldest_age_exact(self) -> bool:
        """Whether ``oldest_age_s`` is exact. An entry from before the topic was loaded may be older."""
        position = self.oldest_unconfirmed
        return position is None or self._ledger.is_age_exact(position)

    # -- time ---------------------------------------------------------------------------------------------------

    def carried(self) -> None:
        """Note that the link has a holder."""
        now = self._environment.clock.now()
        if self.uncarried_since is not None and now - self.uncarried_since > self._tolerance_s:
            self.steady_since = now
        self.uncarried_since = None

    def left(self) -> None:
        """Note that the link has no holder."""
        self.uncarried_since = self._environment.clock.now()

    def await_newest(self) -> None:
        """Expect a confirmation of the newest entry, unless an older one is expected."""
        if self._awaited is None and self.unconfirmed:
            self._awaited = self._ledger.last_confirmed_entry, self._environment.clock.monotonic()

    def advanced(self) -> None:
        """Note a confirmation of the target."""
        self._advanced_at = self._environment.clock.monotonic()
        if self._awaited is not None and self._awaited[0] <= self._cursor.state.mark_delete_position:
            if self._advanced_at - self._awaited[1] > self._tolerance_s:
                self.steady_since = self._environment.clock.now()
            self._awaited = None
            self.await_newest()

    @property
    def stalled_since(self) -> float | None:
        """Monotonic time since which the target has confirmed nothing although a confirmation was expected.

        While the content of the target is unknown, its confirmation is expected.
        """
        unknown_from = self._target_position.unknown_from
        if self._awaited is None:
            return unknown_from
        stalled = max(self._advanced_at, self._awaited[1])
        return stalled if unknown_from is None else min(stalled, unknown_from)

    @property
    def _tolerance_s(self) -> float:
        return self._environment.config.replicatedSubscriptionAtRiskAfterMs / 1000
