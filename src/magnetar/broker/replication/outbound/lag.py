"""How far the target of a link is behind, and since when it has not confirmed what it was to confirm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.broker.log.interfaces import LoggedTopic
    from magnetar.broker.replication.outbound.target_position import TargetPosition
    from magnetar.cursor.cursor import Cursor


class LinkLag:
    """The lag of one link. Everything happens on the event loop's thread."""

    def __init__(self, topic: LoggedTopic, cursor: Cursor, target_position: TargetPosition) -> None:
        """Nobody carries the link yet."""
        self._topic = topic
        self._ledger = topic.ledger
        self._environment = topic.environment
        self._cursor = cursor
        self._target_position = target_position
        now = self._environment.clock.now()
        self.uncarried_since: float | None = now
        """Since when nobody has held the link; None while somebody does."""
        self.steady_since = now
        """When the target last caught up after it was late, or after nobody carried the link."""
        self._advanced_at = self._environment.clock.monotonic()
        self._awaited: tuple[Position, float] | None = None
        """A position that the target has not confirmed, and a moment, monotonic, at which it had become durable."""

    # -- entries ------------------------------------------------------------------------------------------------

    @property
    def backlog(self) -> int | None:
        """Own entries that the target does not hold; None while that is not known."""
        return self.unconfirmed if self._target_position.is_known else None

    @property
    def unconfirmed(self) -> int:
        """Own entries behind the cursor: the target was not yet sent them, or has not confirmed them."""
        return self._topic.log.index.count_own(
            self._environment.cluster, self._cursor.state.mark_delete_position, self._ledger.last_confirmed_entry
        )

    @property
    def oldest_unconfirmed(self) -> Position | None:
        """The first own entry that the target has not confirmed."""
        for extent in self._topic.log.index.own_extents(
            self._cursor.state.mark_delete_position, self._ledger.last_confirmed_entry, self._environment.cluster
        ):
            return extent.local_first
        return None

    def delay_s(self) -> int | None:
        """Seconds for which the oldest unconfirmed entry has been here, 0 when there is none, None while not known."""
        if not self._target_position.is_known:
            return None
        if self.oldest_unconfirmed is None:
            return 0
        age_s = self.oldest_age_s()
        return None if age_s is None else int(age_s)

    def oldest_age_s(self) -> float | None:
        """Seconds for which the oldest unconfirmed entry has been in this cluster's log.

        None when there is none, and for an entry from before a crash: the time of its append was not recorded.
        """
        position = self.oldest_unconfirmed
        return self._ledger.age_of(position) if position is not None and self._ledger.has_recorded(position) else None

    # -- time ---------------------------------------------------------------------------------------------------

    def carried(self) -> None:
        """Somebody carries the link from now on."""
        now = self._environment.clock.now()
        if self.uncarried_since is not None and now - self.uncarried_since > self._tolerance_s:
            self.steady_since = now
        self.uncarried_since = None

    def left(self) -> None:
        """Nobody carries the link from now on."""
        self.uncarried_since = self._environment.clock.now()

    def await_newest(self) -> None:
        """Expect the target to confirm the newest entry, unless an older one is awaited."""
        if self._awaited is None and self.unconfirmed:
            self._awaited = self._ledger.last_confirmed_entry, self._environment.clock.monotonic()

    def advanced(self) -> None:
        """The target has confirmed more."""
        self._advanced_at = self._environment.clock.monotonic()
        if self._awaited is not None and self._awaited[0] <= self._cursor.state.mark_delete_position:
            if self._advanced_at - self._awaited[1] > self._tolerance_s:
                self.steady_since = self._environment.clock.now()
            self._awaited = None
            self.await_newest()

    @property
    def stalled_since(self) -> float | None:
        """Since when, monotonic, the target has confirmed nothing though there was something to confirm.

        While it is not known what the target holds, that has to be confirmed.
        """
        unknown_from = self._target_position.unknown_from
        if self._awaited is None:
            return unknown_from
        stalled = max(self._advanced_at, self._awaited[1])
        return stalled if unknown_from is None else min(stalled, unknown_from)

    @property
    def _tolerance_s(self) -> float:
        return self._environment.config.replicatedSubscriptionAtRiskAfterMs / 1000
