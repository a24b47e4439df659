"""Persist, then speak: a metadata event is acknowledged only after its changes are durable.

The loss of a cluster in just that moment is rare in a run, so the order itself is checked.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from unittest.mock import patch

from magnetar.metasync.event_topic import ClientEventTopic
from magnetar.metasync.synchronizer import Synchronizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.base.errors import StorageError
    from magnetar.base.position import Position
    from magnetar.metadata.store import OnDurable


@contextlib.contextmanager
def events_watched(violate: Callable[[str], None]) -> Iterator[None]:
    """Call ``violate`` for an event that is acknowledged before its changes were reported as durable."""
    receive, acknowledge, take = ClientEventTopic.receive, ClientEventTopic.acknowledge, Synchronizer._take  # noqa: SLF001 - where the two meet
    unsaved: dict[int, bytes] = {}
    """Received events by identity: each one is another object."""
    received: dict[tuple[ClientEventTopic, Position], bytes] = {}

    async def watched_receive(self: ClientEventTopic) -> tuple[Position, bytes]:
        position, data = await receive(self)
        unsaved[id(data)] = received[self, position] = data
        return position, data

    def watched_take(self: Synchronizer, data: bytes, durable: OnDurable) -> None:
        def reported(error: StorageError | None) -> None:
            if error is None:
                unsaved.pop(id(data), None)
            durable(error)

        take(self, data, reported)

    def watched_acknowledge(self: ClientEventTopic, position: Position) -> None:
        if id(received[self, position]) in unsaved:
            violate(f"M: the event at {position} is acknowledged before its changes are durable")
        acknowledge(self, position)

    with (
        patch.object(ClientEventTopic, "receive", watched_receive),
        patch.object(ClientEventTopic, "acknowledge", watched_acknowledge),
        patch.object(Synchronizer, "_take", watched_take),
    ):
        yield
