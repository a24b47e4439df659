"""Protocols of the topic and the subscription, as dispatchers use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.broker.log.interfaces import LoggedTopic

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.broker.delayed.index import DelayedIndex
    from magnetar.broker.dispatch.throttle import Throttle
    from magnetar.broker.environment import Environment
    from magnetar.cursor.cursor import Cursor
    from magnetar.cursor.ranges import Range


class DispatchedTopic(LoggedTopic, Protocol):
    """The topic whose entries are dispatched."""

    @property
    def delayed(self) -> DelayedIndex:
        """The delayed entries."""
        ...

    def notify(self) -> None:
        """Schedule a dispatch."""
        ...


class DispatchedEntries(Protocol):
    """The unacknowledged entries of one subscription."""

    @property
    def environment(self) -> Environment:
        """Objects that all parts of the broker share."""
        ...

    @property
    def topic(self) -> DispatchedTopic:
        """The topic."""
        ...

    @property
    def cursor(self) -> Cursor:
        """The acknowledgement state."""
        ...

    @property
    def throttle(self) -> Throttle | None:
        """Limits of what is sent; None without limits."""
        ...

    @property
    def is_paused(self) -> bool:
        """Whether new entries must wait until holes in the acknowledgements are filled (PIP-299)."""
        ...

    @property
    def is_stopped(self) -> bool:
        """Whether nothing may be sent, because a migration moves the clients of the topic."""
        ...

    def first(self) -> Position:
        """Return the first position to read."""
        ...

    def readable(self, read_position: Position, limit: int) -> list[Range]:
        """Return the next entries to send, at most ``limit``."""
        ...

    def readable_through(self) -> Position:
        """Return the last position that may be sent."""
        ...

    def is_finished(self, position: Position) -> bool:
        """Return whether an entry need not be sent again."""
        ...
