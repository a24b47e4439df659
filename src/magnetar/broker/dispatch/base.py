"""The interface of all dispatchers, and the consumers of one."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.limits import Limit
    from magnetar.base.position import Position
    from magnetar.broker.dispatch.consumer import Consumer, ConsumerOptions, Delivery
    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.cursor.ranges import Range


class Dispatcher(Protocol):
    """Sends a subscription's entries to its consumers. Used on the event loop's thread."""

    consumers: dict[Consumer, None]
    """In the order of their arrival."""

    def conflicting(self, options: ConsumerOptions) -> list[Consumer]:
        """Return the connected consumers that conflict with the request, if they are still alive."""
        ...

    def check_can_add(self, options: ConsumerOptions) -> None:
        """Raise RequestError if a consumer with these options cannot be added."""
        ...

    def accepts(self, consumer: Consumer) -> bool:
        """Return whether this dispatcher can serve a consumer of its type when it has no other consumer."""
        ...

    def add(self, consumer: Consumer) -> None:
        """Add a consumer, which has the answer to its SUBSCRIBE."""
        ...

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer, and dispatch its unacknowledged entries again."""
        ...

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int | None) -> None:
        """Send entries to the consumer again; without positions, all its unacknowledged entries."""
        ...

    @property
    def in_progress(self) -> int:
        """Number of messages that were sent to connected consumers and are not acknowledged."""
        ...

    def holders(self, entries: Range) -> list[Consumer]:
        """Return the consumers that hold some of these unacknowledged entries; none for entries that were not sent."""
        ...

    def entries_deleted(self, ranges: Sequence[Range], by: Consumer | None) -> None:
        """Record that entries were acknowledged, by a consumer of this subscription or elsewhere (None)."""
        ...

    def limits_changed(self) -> None:
        """Apply the limits of the topic's policies, which may have changed."""
        ...

    def dispatch(self) -> None:
        """Send the entries that can be sent, at most one read; notify the topic if there are more.

        So other subscriptions and connections run in between, and a full socket can be noticed.
        """
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


class Consumers:
    """The consumers of a dispatcher. Any number is accepted, and they never conflict, unless a subclass limits them."""

    def __init__(self) -> None:
        """Start without consumers."""
        self.consumers: dict[Consumer, None] = {}

    @property
    def in_progress(self) -> int:
        """Number of messages that were sent to connected consumers and are not acknowledged."""
        return sum(each.unacked_messages for each in self.consumers)

    def conflicting(self, options: ConsumerOptions) -> list[Consumer]:
        """Return no consumer: consumers never conflict."""
        del options
        return []

    def check_can_add(self, options: ConsumerOptions) -> None:
        """Accept any number of consumers."""

    def accepts(self, consumer: Consumer) -> bool:
        """Accept any consumer."""
        del consumer
        return True

    def add(self, consumer: Consumer) -> None:
        """Add a consumer."""
        self.consumers[consumer] = None

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        del self.consumers[consumer]


class LookAhead:
    """Whether a dispatcher may read further entries while others wait for their consumers."""

    def __init__(self, hits: LimitHits) -> None:
        """Begin with room; ``hits`` counts how often it was used up."""
        self._hits = hits
        self._had_room = True

    def has(self, room: int, limit: Limit) -> bool:
        """Return whether there is room; count a hit of ``limit`` if it was just used up."""
        if room <= 0 and self._had_room:
            self._hits.hit(limit)
        self._had_room = room > 0
        return self._had_room


class SizeEstimate:
    """Estimates the number of messages of entries that are not read yet, from those that were read last.

    Entries that are read and cannot be sent are read again.
    """

    def __init__(self) -> None:
        """Assume one message in each entry."""
        self._messages_per_entry = 1.0

    def note(self, run: Sequence[Delivery]) -> None:
        """Record entries that were read."""
        if len(run) == 1:
            self._messages_per_entry = run[0].messages
        elif run:
            self._messages_per_entry = sum([each.messages for each in run]) / len(run)

    def permits_for(self, entries: int) -> int:
        """Return the number of permits for this number of entries."""
        return ceil(entries * self._messages_per_entry)

    def entries_for(self, permits: int) -> int:
        """Return the number of entries that use this number of permits, at least 1 if there are permits."""
        return ceil(permits / self._messages_per_entry)
