"""Publishes the edits of this cluster to the event topic, and applies those of the others (PIP-136).

The event topic is replicated like any other. Events may be lost, repeated or reordered: each is merged. An event that
cannot be applied is refused, counted and kept, and the next one follows.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from magnetar.base.errors import MagnetarError, RequestError, StorageError
from magnetar.base.tasks import report_bug, start_task
from magnetar.metasync.events import EventError, MetadataChangeEvent
from magnetar.metasync.places import OUTBOX
from magnetar.metasync.store import REASON_LENGTH_MAX

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator

    from magnetar.base.position import Position
    from magnetar.metadata.store import OnDurable
    from magnetar.metasync.store import SynchronizedStore

log = structlog.get_logger(__name__)

PUBLISHED_AT_ONCE = 100
"""Maximum number of events that are published before their receipts are awaited."""

SLICE_S = 0.002
"""Seconds of a turn of the event loop in which an event may be applied, or one of a snapshot made."""

MEMORY_CHECK_S = 1.0
"""Seconds between two checks whether there is memory for events again."""


class EventTopic(Protocol):
    """The event topic of this cluster. If the connection is lost, its methods raise OSError or MagnetarError."""

    def publish(self, event: bytes) -> Awaitable[object]:
        """Publish an event; the result is available when it is durable."""
        ...

    async def receive(self) -> tuple[Position, bytes]:
        """Return the next event with its position."""
        ...

    def acknowledge(self, position: Position) -> None:
        """Acknowledge an event."""
        ...


class Synchronizer:
    """The synchronizer of one cluster. Used on the event loop's thread."""

    def __init__(
        self,
        store: SynchronizedStore,
        snapshot_s: float,
        has_memory: Callable[[], bool] = lambda: True,
        on_applied: Callable[[MetadataChangeEvent], None] = lambda _: None,
    ) -> None:
        """Synchronize ``store``; ``snapshot_s`` is the time between two snapshots in seconds, 0 for none.

        Events wait in the topic while ``has_memory`` returns False. ``on_applied`` gets each event with news.
        """
        self._store = store
        self._has_memory = has_memory
        self._on_applied = on_applied
        self._snapshot_s = snapshot_s
        self._snapshot_due = 0.0
        """Loop time of the next snapshot; 0 before the first connection."""
        self._filled = asyncio.Event()
        """Set when the outbox may have an event."""
        self.applied = 0
        """Number of events with news."""
        self.refused = 0
        """Number of refused events since the start."""

    async def run(self, topic: EventTopic) -> Exception:
        """Publish and apply events until the connection to ``topic`` is lost; return the reason."""
        loop = asyncio.get_running_loop()
        lost: asyncio.Future[Exception] = loop.create_future()

        async def guarded(work: Coroutine[Any, Any, None]) -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - without this work the others would seem to do all of it
                if not isinstance(error, (OSError, MagnetarError)):
                    report_bug(loop, "the metadata synchronizer failed, and begins again", error)
                if not lost.done():
                    lost.set_result(error)

        works = {
            "publishing of metadata events": self._publish(topic),
            "reception of metadata events": self._receive(topic, lost),
            "snapshots of metadata": self._take_snapshots(topic),
        }
        end = self._store.watch(OUTBOX, lambda _: self._filled.set())
        tasks = [start_task(loop, guarded(work), name) for name, work in works.items()]
        try:
            return await lost
        finally:
            end()
            for task in tasks:
                task.cancel()

    async def snapshot(self, topic: EventTopic) -> None:
        """Publish all records; return when they are durable."""
        loop, events = asyncio.get_running_loop(), self._store.snapshot()
        while part := _some(events, loop.time):
            await self._store.durable()
            await _published(topic, part)

    async def _publish(self, topic: EventTopic) -> None:
        while True:
            self._filled.clear()
            found = self._store.unpublished(PUBLISHED_AT_ONCE)
            if not found:
                await self._filled.wait()
                continue
            await self._store.durable()
            await _published(topic, [event for _, event in found])
            self._store.published(number for number, _ in found)

    async def _receive(self, topic: EventTopic, lost: asyncio.Future[Exception]) -> None:
        loop, worked_s = asyncio.get_running_loop(), 0.0
        while True:
            if worked_s >= SLICE_S:  # many events can wait, so that ``receive`` returns at once
                await asyncio.sleep(worked_s)  # the clients get as much time
                worked_s = 0.0
            if not self._has_memory():
                await self._memory_available()
            position, data = await topic.receive()

            def durable(error: StorageError | None, position: Position = position) -> None:
                if error is None:
                    topic.acknowledge(position)
                elif not lost.done():
                    lost.set_result(error)

            began_at = loop.time()
            self._take(data, durable)
            worked_s += loop.time() - began_at

    async def _memory_available(self) -> None:
        log.warning("metadata_events_wait", reason="the memory of the broker is used up (memoryLimitMB)")
        while not self._has_memory():  # noqa: ASYNC110 - nothing tells that memory was freed
            await asyncio.sleep(MEMORY_CHECK_S)

    def _take(self, data: bytes, durable: OnDurable) -> None:
        try:
            event = MetadataChangeEvent.decode(data)
            is_news = self._store.apply(event, durable)
        except (EventError, RequestError, ValueError, RecursionError) as error:
            self._refuse(data, str(error), durable)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - a bug that one event reveals must not stop all others
            report_bug(asyncio.get_running_loop(), "a metadata event was not applied", error)
            self._refuse(data, repr(error), durable)
        else:
            self.applied += is_news
            if is_news:
                self._on_applied(event)

    def _refuse(self, data: bytes, reason: str, durable: OnDurable) -> None:
        self.refused += 1
        log.warning("metadata_event_refused", error=reason[:REASON_LENGTH_MAX])
        self._store.keep_refused(data, reason, durable)

    async def _take_snapshots(self, topic: EventTopic) -> None:
        loop = asyncio.get_running_loop()
        self._snapshot_due = self._snapshot_due or loop.time() + self._snapshot_s
        while self._snapshot_s:
            await asyncio.sleep(self._snapshot_due - loop.time())
            await self.snapshot(topic)
            self._snapshot_due = loop.time() + self._snapshot_s


def _some(events: Iterator[bytes], now: Callable[[], float]) -> list[bytes]:
    """Return the next events that can be made in a slice; none if there are no more."""
    found, ends_at = list[bytes](), now() + SLICE_S
    for event in islice(events, PUBLISHED_AT_ONCE):
        found.append(event)
        if now() >= ends_at:
            break
    return found


async def _published(topic: EventTopic, events: Iterable[bytes]) -> None:
    """Publish events; return when all are durable. The failure of each is noticed, and the first one is raised."""
    receipts: list[Awaitable[object]] = []
    try:
        receipts += (topic.publish(event) for event in events)
    finally:
        await asyncio.gather(*receipts)
