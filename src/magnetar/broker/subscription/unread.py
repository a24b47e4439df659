"""The entries that a subscription has not acknowledged, and the limit up to which they may be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.dispatch.throttle import throttled
from magnetar.broker.resources.token_bucket import followed

if TYPE_CHECKING:
    from collections.abc import Generator

    from magnetar.base.position import Position
    from magnetar.broker.dispatch.interfaces import DispatchedTopic
    from magnetar.broker.dispatch.throttle import Throttle
    from magnetar.broker.environment import Environment
    from magnetar.broker.resources.token_bucket import RateLimit
    from magnetar.broker.subscription.ack_state import AckState
    from magnetar.cursor.cursor import Cursor
    from magnetar.cursor.ranges import Range


STEP_ENTRIES = 1000
"""Entries that a step counts, some milliseconds of work if each is a range of its own."""


class UnreadEntries:
    """Entries for the dispatcher of one subscription; see ``DispatchedEntries``."""

    def __init__(self, topic: DispatchedTopic, cursor: Cursor, ack_state: AckState) -> None:
        """Represent the entries of ``topic`` that ``cursor`` has not acknowledged."""
        self.topic = topic
        self.cursor = cursor
        self.environment: Environment = topic.environment
        self._ack_state = ack_state
        self.throttle: Throttle | None = None
        """Limits of what is sent; None without limits."""
        self._rate_limit: RateLimit | None = None
        self.apply_rates()

    def apply_rates(self) -> None:
        """Apply the limits of rates of the topic and of its subscriptions."""
        rates, environment = self.topic.rates, self.environment
        self._rate_limit = followed(self._rate_limit, rates.of(self.cursor.name), environment.clock.monotonic())
        self.throttle = throttled(self.throttle, (rates.dispatch, self._rate_limit), environment, self.topic.notify)

    def close(self) -> None:
        """Resume no dispatch."""
        if self.throttle is not None:
            self.throttle.close()

    def first(self) -> Position:
        """Position at which a new dispatcher begins to read."""
        return self.topic.ledger.next_position(self.cursor.state.mark_delete_position)

    def undeleted(self, read_position: Position, limit: int) -> list[Range]:
        """Return the next durable, unacknowledged entries to read, at most ``limit``."""
        return self._legible(read_position, self.topic.ledger.last_confirmed_entry, limit)

    def nth(self, count: int, *, with_damaged: bool) -> Generator[None, None, Position | None]:
        """Return the ``count``-th (from 1) unacknowledged entry in steps; None if there are fewer."""
        assert count > 0
        position, last = self.first(), self.topic.ledger.last_confirmed_entry
        while True:
            limit = min(count, STEP_ENTRIES)
            ranges = (
                self.cursor.state.undeleted(position, last, limit) if with_damaged else self.undeleted(position, limit)
            )
            if not ranges:
                return None
            count -= sum([each.entries for each in ranges])
            if not count:
                return ranges[-1].last
            position = self.topic.ledger.next_position(ranges[-1].last)
            yield

    def readable(self, read_position: Position, limit: int) -> list[Range]:
        """Return the next entries to send, at most ``limit``, within the limits of acknowledgement state."""
        return self._legible(read_position, self.readable_through(), limit)

    def readable_through(self) -> Position:
        """Position up to which entries may be sent to consumers."""
        return self._ack_state.readable_through(self.topic.ledger.last_confirmed_entry)

    @property
    def is_paused(self) -> bool:
        """Whether no new entries may be sent until holes in the acknowledgements are filled (PIP-299)."""
        return self._ack_state.is_blocking

    @property
    def is_stopped(self) -> bool:
        """Whether nothing may be sent, because a migration moves the clients of the topic. Tools may go on reading."""
        return self.topic.log.migration_fence.is_set and self.cursor.durable

    def is_finished(self, position: Position) -> bool:
        """Return whether an entry must not be sent again, because it is acknowledged or unreadable."""
        state, damaged = self.cursor.state, self.topic.log.damaged
        return position <= state.mark_delete_position or state.is_deleted(position) or position in damaged

    def _legible(self, read_position: Position, through: Position, limit: int) -> list[Range]:
        """Return the next unacknowledged entries, without those known to be damaged, which stay unacknowledged."""
        if read_position > through:
            return []
        while ranges := self.cursor.state.undeleted(read_position, through, limit):
            if not self.topic.log.damaged:
                break
            intact = [part for each in ranges for part in self.topic.log.damaged.absent(each)]
            if intact:
                return intact
            read_position = self.topic.ledger.next_position(ranges[-1].last)
        return ranges
