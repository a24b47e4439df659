"""What dispatchers need to know of the entries that they dispatch, and of the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.broker.log.interfaces import LoggedTopic

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.broker.delayed.index import DelayedIndex
    from magnetar.broker.environment import Environment
    from magnetar.cursor.cursor import Cursor
    from magnetar.cursor.ranges import Range


class DispatchedTopic(LoggedTopic, Protocol):
    """The topic whose entries are dispatched."""

    @property
    def delayed(self) -> DelayedIndex:
        """The entries that wait for their time."""
        ...

    def notify(self) -> None:
        """There may be something to dispatch."""
        ...


class DispatchedEntries(Protocol):
    """The entries of one subscription that are not acknowledged."""

    @property
    def environment(self) -> Environment:
        """What every part of the broker shares."""
        ...

    @property
    def topic(self) -> DispatchedTopic:
        """The topic."""
        ...

    @property
    def cursor(self) -> Cursor:
        """What is acknowledged."""
        ...

    @property
    def is_paused(self) -> bool:
        """Whether nothing new may be sent until some holes in the acknowledgements are filled (PIP-299)."""
        ...

    def first(self) -> Position:
        """Where a dispatcher that starts over begins to read."""
        ...

    def readable(self, read_position: Position, limit: int) -> list[Range]:
        """The next entries to send, at most ``limit``."""
        ...

    def readable_through(self) -> Position:
        """How far entries may be sent."""
        ...

    def is_finished(self, position: Position) -> bool:
        """Whether an entry is not to be sent again."""
        ...
