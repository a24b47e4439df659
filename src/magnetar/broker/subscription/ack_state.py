"""How near a subscription's acknowledgements are to the most that may be persisted, and what follows (PIP-299)."""

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
"""Shares of the limit, ascending, that are told once when they are reached."""

ALARM_AGAIN_BELOW_PERCENTS = 10
"""How far below a share the state must have been before reaching it is told again."""

OLDEST_HOLES_MAX = 10
"""Holes that are shown, of however many there are."""


class LimitAlarm:
    """Which share of a limit was told last."""

    def __init__(self) -> None:
        """Nothing was."""
        self._told = 0

    def reached(self, percent: int) -> int | None:
        """The share that ``percent`` of the limit is worth telling about, None if that was told already or is none."""
        reached = max((share for share in ALARM_PERCENTS if share <= percent), default=0)
        if reached > self._told:
            self._told = reached
            return reached
        if percent < self._told - ALARM_AGAIN_BELOW_PERCENTS:
            self._told = reached
        return None


class Hole(NamedTuple):
    """Entries below acknowledged ones that are not acknowledged, and who has them."""

    entries: Range
    consumers: list[str]
    """The names of the consumers that hold some of them, sorted; none for what waits to be sent."""


class AckState:
    """Watches one subscription's acknowledgements against the limits of what is persisted.

    With ``dispatcherPauseOnAckStatePersistentEnabled`` a durable subscription of any type is sent nothing new beyond a
    limit. All acknowledgements are persisted then: only what was sent before can still make holes. Without it, what
    comes beyond the limit is not persisted. Dispatchers ask before each read; nothing here waits or wakes.
    """

    def __init__(
        self, cursor: Cursor, topic: TopicName, environment: Environment, holders: Callable[[Range], list[Consumer]]
    ) -> None:
        """Watch the acknowledgements of ``cursor``; ``holders`` tells which consumers hold some of these entries."""
        self._cursor = cursor
        self._topic = topic
        self._limit_hits = environment.limit_hits
        self._limits = environment.cursor_limits
        self._holders = holders
        self._alarm = LimitAlarm()
        self._pauses = False

    def apply(self, *, pauses: bool) -> bool:
        """Follow ``dispatcherPauseOnAckStatePersistentEnabled`` as it is now; whether that changes anything."""
        before = self._pauses
        self._pauses = pauses and self._cursor.durable
        self._cursor.persists_all = self._pauses
        return self._pauses != before

    @property
    def used(self) -> float:
        """The share of the limit that is used, of ranges or of partly acknowledged batches, whichever is more."""
        state, limits = self._cursor.state, self._limits
        return max(
            state.deleted_ranges_count / limits.unacked_ranges_max,
            state.partial_batches_count / limits.batch_deleted_max,
        )

    @property
    def is_blocking(self) -> bool:
        """Whether nothing new may be sent until some holes are filled."""
        return self._pauses and self.used > 1

    def readable_through(self, last: Position) -> Position:
        """How far, ``last`` at most, entries may be read to be sent.

        What lies below an acknowledged entry was sent before, if not since this start of the broker, and closes holes.
        """
        return min(last, self._cursor.state.last_acknowledged) if self.is_blocking else last

    def watch(self) -> None:
        """Tell when a share of the limit is reached; called with each flush."""
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
        """The oldest holes, ``OLDEST_HOLES_MAX`` at most, ascending."""
        return [
            Hole(hole, sorted(consumer.name for consumer in self._holders(hole)))
            for hole in islice(self._cursor.state.holes(), OLDEST_HOLES_MAX)
        ]
