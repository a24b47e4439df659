"""A consumer, or a reader, of one connection: what comes waits in a queue, whose length its permits bound."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from magnetar.base.position import EARLIEST, Position
from magnetar.wire import commands
from magnetar.wire.entries.entry import parse_metadata
from magnetar.wire.message_id import message_id, position_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.wire.proto import pulsar_api_pb2 as pb

READ_AHEAD = 1_000
"""Messages that a broker may send ahead of those that were received, where nothing else is asked for."""


class Connected(Protocol):
    """What a consumer needs of its connection."""

    def write(self, frame: bytes) -> None:
        """Send a frame."""
        ...

    def drop_consumer(self, number: int) -> None:
        """Close a consumer without waiting for the answer."""
        ...

    async def request(self, build: Callable[[int], bytes]) -> pb.BaseCommand:
        """Send a request and return the answer."""
        ...


class Received(NamedTuple):
    """An entry, which holds one message or a batch of them."""

    position: Position
    metadata: pb.MessageMetadata
    entry: bytes
    redelivery_count: int


class Consumer:
    """Receives the entries of one subscription in the order in which they came."""

    def __init__(self, connection: Connected, number: int, read_ahead: int, after: Position = EARLIEST) -> None:
        """Be consumer ``number`` of ``connection``; ``started`` lets the broker send up to ``read_ahead`` messages.

        Entries up to and including ``after`` are dropped: a broker sends a reader the entry at its start, too.
        """
        self.failure: Exception | None = None
        """Why the consumer has ended; None while it has not."""
        self._connection = connection
        self._number = number
        self._read_ahead = read_ahead
        self._after = after
        self._used = 0
        """Permits that received messages have used and that were not granted again."""
        self._queue: deque[Received] = deque()
        self._changed = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Entries that came and were not received."""
        return len(self._queue)

    def started(self) -> None:
        """Let the broker send."""
        self._connection.write(commands.flow(consumer_id=self._number, message_permits=self._read_ahead))

    async def receive(self) -> Received:
        """Return the next entry; raises what ended the consumer when nothing is left to be received."""
        while not self._queue:
            if self.failure is not None:
                raise self.failure
            self._changed.clear()
            await self._changed.wait()
        received = self._queue.popleft()
        self._grant_again(received.metadata)
        return received

    def acknowledge(self, position: Position, *, cumulative: bool = False) -> None:
        """Acknowledge an entry or, if ``cumulative``, all up to and including it, without waiting for the answer."""
        ids = [message_id(position)]
        self._connection.write(commands.ack(consumer_id=self._number, message_ids=ids, cumulative=cumulative))

    async def last_position(self) -> Position:
        """Return where the topic's last message is, EARLIEST if it has none; raises as PulsarConnection.request."""
        reply = await self._connection.request(
            lambda request_id: commands.get_last_message_id(consumer_id=self._number, request_id=request_id)
        )
        return max(EARLIEST, position_of(reply.getLastMessageIdResponse.last_message_id))

    def close(self) -> None:
        """Close the consumer; what was not acknowledged stays so."""
        self._connection.drop_consumer(self._number)
        self.ended(ConnectionError("consumer was closed"))

    def received(self, message: pb.CommandMessage, entry: bytes) -> None:
        """See ConsumerEvents."""
        place, metadata = position_of(message.message_id), parse_metadata(entry)
        if place <= self._after:
            self._grant_again(metadata)
            return
        self._queue.append(Received(place, metadata, entry, message.redelivery_count))
        self._changed.set()

    def _grant_again(self, metadata: pb.MessageMetadata) -> None:
        """Grant the permits of a message again, with those of others that were not granted yet."""
        self._used += max(1, metadata.num_messages_in_batch)
        if 2 * self._used >= self._read_ahead:
            permits, self._used = self._used, 0
            self._connection.write(commands.flow(consumer_id=self._number, message_permits=permits))

    def ended(self, failure: Exception) -> None:
        """See ConsumerEvents."""
        if self.failure is None:
            self.failure = failure
        self._changed.set()
