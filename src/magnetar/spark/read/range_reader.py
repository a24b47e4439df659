"""Entries of a range, read through Pulsar's protocol by a task."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST, Position
from magnetar.client.client import reader_name
from magnetar.spark.connecting import admin_client
from magnetar.spark.read.batches.messages import Stored
from magnetar.spark.read.cluster import cursor_in
from magnetar.spark.read.shared_clients import SharedClients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.client.consumer import Consumer, Received
    from magnetar.spark.options import Options
    from magnetar.spark.read.ranges import Range

CHUNK_BYTES = 16 * 2**20
"""Bytes of entries that are parsed at once, unless one entry is larger."""

CHUNK_MESSAGES = 131_072
"""Messages that are parsed at once, unless one entry has more."""

READ_AHEAD = 20_000
"""Messages for which a task grants permits."""

ATTEMPTS = 5
"""Attempts to continue after a lost connection without an entry in between."""

PAUSE_SECONDS = 0.5
"""Pause before a further attempt."""

ENTRY_TIMEOUT_SECONDS = 30.0
"""Time to wait for the next entry of a range. Then the task asks again for the newest message of the topic."""

CHECK_SECONDS = 1.0
"""Time to wait for an entry before the first check whether the broker has passed the end of the range."""

_GONE = (ServerError.TopicNotFound, ServerError.AuthorizationError, ServerError.AuthenticationError)
"""Refusals that do not change."""


class RangeReader:
    """Reads the entries of one range in order. A lost connection is opened again."""

    def __init__(
        self, options: Options, wanted: Range, at_once: int | None = None, clients: SharedClients | None = None
    ) -> None:
        """Create a reader; it connects when it is iterated, or with ``open_ahead``.

        A chunk has at most ``at_once`` messages, unless one entry has more. ``clients`` are those that it shares with
        other readers of its task; without, it has its own.
        """
        self._options = options
        self._subscription = reader_name()
        self._wanted = wanted
        self._at_once = CHUNK_MESSAGES if at_once is None else min(at_once, CHUNK_MESSAGES)
        self._after = Position(wanted.start.ledger_id, max(-1, wanted.start.entry_id - 1))
        self._clients = clients or SharedClients()
        self._owns_clients = clients is None
        self._opening: asyncio.Task[Consumer | None] | None = None
        self._consumer: Consumer | None = None
        self._last = EARLIEST
        """The newest message of the topic when the consumer was opened."""
        self.entries = 0
        """Number of entries that were read."""

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        if self._opening is not None:
            self._opening.cancel()  # an open consumer ends with the connection
        self._drop_consumer()
        if self._owns_clients:
            self._clients.close()

    def open_ahead(self) -> None:
        """Begin to open the consumer, which gets one entry before the reader is iterated.

        It goes on while other readers of the same clients are iterated.
        """
        self._opening = self._clients.begin(self._try_to_open(), f"opening {self._wanted.topic}")

    def chunks(self) -> Iterator[list[Stored]]:
        """Yield the entries of the range in chunks; raises the last error when ATTEMPTS have failed."""
        failures = 0
        while self._after < self._wanted.end:
            try:
                chunk, is_complete = self._clients.run(self._next())
            except (OSError, MagnetarError) as error:
                failures += 1
                if failures >= ATTEMPTS or (isinstance(error, RequestError) and error.code in _GONE):
                    raise
                self._drop_consumer()
                time.sleep(PAUSE_SECONDS)
                continue
            failures = 0
            if chunk:
                self._after = chunk[-1].position
                self.entries += len(chunk)
                yield chunk
            if is_complete:
                return

    async def _next(self) -> tuple[list[Stored], bool]:
        """Return the next chunk, and whether the range has no more."""
        consumer = await self._opened()
        chunk: list[Stored] = []
        size = messages = 0
        at = self._after
        while size < CHUNK_BYTES and messages < self._at_once:
            if at >= self._last:
                return chunk, True
            try:
                received = consumer.take() or await self._receive(consumer)
            except (OSError, MagnetarError):
                self._drop_consumer()
                if not chunk:
                    raise
                break
            if received is None or received.position >= self._wanted.end:
                return chunk, True
            at = received.position
            stored = Stored(at, received.metadata, received.entry)
            chunk.append(stored)
            size += len(stored.entry)
            messages += stored.messages
        return chunk, False

    async def _opened(self) -> Consumer:
        """Return the consumer, with permits for as much as is read at once."""
        if self._consumer is None:
            opening, self._opening = self._opening, None
            self._consumer = (opening and await opening) or await self._open()
            self._consumer.read_further_ahead(min(READ_AHEAD, self._at_once) - 1)
        return self._consumer

    async def _try_to_open(self) -> Consumer | None:
        """Open the consumer; None after an error, which a later attempt meets again if it remains."""
        try:
            return await self._open()
        except (OSError, MagnetarError):
            return None

    async def _open(self) -> Consumer:
        consumer = await self._clients.client(self._options).read(
            self._wanted.topic, self._after, read_ahead=1, creates_topic=False, subscription=self._subscription
        )
        try:
            self._last = await consumer.last_position()
        except BaseException:
            consumer.close()  # the next attempt uses its name again
            raise
        return consumer

    async def _receive(self, consumer: Consumer) -> Received | None:
        """Return the next entry, or None if the rest of the range has markers only.

        Raises TimeoutError after ENTRY_TIMEOUT_SECONDS.
        """
        waited, is_passed = 0.0, False
        while waited < ENTRY_TIMEOUT_SECONDS:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    return await consumer.receive()
            if is_passed:
                return None
            # An entry that the broker has read is sent within the next wait.
            is_passed = self._is_passed()
            waited += CHECK_SECONDS
        message = f"no entry of {self._wanted.topic} after {self._after} within {ENTRY_TIMEOUT_SECONDS:g} s"
        raise TimeoutError(message)

    def _is_passed(self) -> bool:
        """Return whether the broker has read all entries of the range.

        A broker of Apache Pulsar keeps markers in the log, and does not send them.
        """
        with admin_client(self._options) as admin:
            stats = admin.topics.internal_stats(TopicName.parse(self._wanted.topic))
        cursor = cursor_in(stats, self._subscription)
        return cursor is not None and Position.parse(cursor["readPosition"]) >= self._wanted.end

    def _drop_consumer(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
