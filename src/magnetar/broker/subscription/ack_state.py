"""Use of the limit of persisted acknowledgements of a subscription, and its consequences (PIP-299)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import structlog

from magnetar.base.limits import Limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.names import TopicName
    from magnetar.base.position import Position
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.environment import Environment
    from magnetar.cursor.cursor import Cursor
    from magnetar.cursor.ranges import Range

log = structlog.get_logger(__name__)

ALARM_PERCENTS = (50, 80, 100)
"""Shares of the limit, ascending, that are logged when they are reached."""

ALARM_AGAIN_BELOW_PERCENTS = 10
"""Distance below a share that the state must reach before the share is logged again."""

OLDEST_HOLES_MAX = 10
"""Maximum number of holes that are shown."""


class LimitAlarm:
    """Share of a limit that was logged last."""

    def __init__(self) -> None:
        """Create an alarm that has logged nothing."""
        self._logged = 0

    def reached(self, percent: int) -> int | None:
        """Return the share that ``percent`` of the limit newly reaches; None if there is none."""
        reached = max((share for share in ALARM_PERCENTS if share <= percent), default=0)
        if reached > self._logged:
            self._logged = reached
            return reached
        if percent < self._logged - ALARM_AGAIN_BELOW_PERCENTS:
            self._logged = reached
        return None


class Hole(NamedTuple):
    """Unacknowledged entries before acknowledged ones, and the consumers that hold them."""

    entries: Range
    consumers: list[str]
    """Names of consumers that hold some of them, sorted; empty for entries that wait to be sent."""


class AckState:
    """Compares the acknowledgements of a subscription with the limits of persisted state.

    With ``dispatcherPauseOnAckStatePersistentEnabled``, a durable subscription of any type gets no new messages at a
    limit. All acknowledgements are persisted then, since only earlier messages can still make holes. Without it,
    acknowledgements beyond the limit are not persisted. Dispatchers query this object before each read; it does not
    wake them.
    """

    def __init__(
        self, cursor: Cursor, topic: TopicName, environment: Environment, holders: Callable[[Range], list[Consumer]]
    ) -> None:
        """Observe ``cursor``; ``holders`` returns the consumers that hold some of the given entries."""
        self._cursor = cursor
        self._topic = topic
        self._limit_hits = environment.limit_hits
        self._limits = environment.cursor_limits
        self._holders = holders
        self._alarm = LimitAlarm()
        self._pauses = False

    def apply(self, *, pauses: bool) -> bool:
        """Apply the current ``dispatcherPauseOnAckStatePersistentEnabled``; return whether that changes anything."""
        before = self._pauses
        self._pauses = pauses and self._cursor.durable
        self._cursor.persists_all = self._pauses
        return self._pauses != before

    @property
    def used(self) -> float:
        """Used share of the limit: of ranges or of partly acknowledged batches, whichever is larger."""
        state, limits = self._cursor.state, self._limits
        return max(
            state.deleted_ranges_count / limits.unacked_ranges_max,
            state.partial_batches_count / limits.batch_deleted_max,
        )

    @property
    def is_blocking(self) -> bool:
        """Whether no new messages may be sent until holes are filled."""
        return self._pauses and self.used > 1

    def readable_through(self, last: Position) -> Position:
        """Return the last position, at most ``last``, that may be read for dispatch.

        Entries before an acknowledged one were sent earlier, perhaps before a restart, and their acknowledgements fill
        holes.
        """
        return min(last, self._cursor.state.last_acknowledged) if self.is_blocking else last

    def watch(self) -> None:
        """Log the share of the limit that is newly reached; called with each flush."""
        reached = self._alarm.reached(int(self.used * 100))
        if reached is None:
            return
        state, limits = self._cursor.state, self._limits
        if state.deleted_ranges_count >= limits.unacked_ranges_max:
            self._limit_hits.hit(Limit.UNACKED_RANGES)
        if state.partial_batches_count >= limits.batch_deleted_max:
            self._limit_hits.hit(Limit.BATCH_DELETED)
        log.warning(
            "ack_state_limit",
            topic=str(self._topic),
            subscription=self._cursor.name,
            percent=reached,
            ranges=state.deleted_ranges_count,
            ranges_max=limits.unacked_ranges_max,
            batches=state.partial_batches_count,
            batches_max=limits.batch_deleted_max,
            pauses=self._pauses,
            oldest_holes=[f"{hole.entries} {','.join(hole.consumers)}".rstrip() for hole in self.oldest_holes()],
        )

    def oldest_holes(self) -> list[Hole]:
        """Return the oldest holes, at most ``OLDEST_HOLES_MAX``, ascending."""
        return [
            Hole(hole, sorted(consumer.name for consumer in self._holders(hole)))
            for hole in islice(self._cursor.state.holes(), OLDEST_HOLES_MAX)
        ]
