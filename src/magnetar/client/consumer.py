"""A consumer or reader of one connection: received entries wait in a queue, which its permits bound."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from magnetar.base.position import EARLIEST, Position
from magnetar.wire import commands
from magnetar.wire.entries.entry import parse_metadata
from magnetar.wire.message_id import message_id, position_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.wire.proto import pulsar_api_pb2 as pb

READ_AHEAD = 1_000
"""Default number of messages in the queue."""


class Connected(Protocol):
    """The connection, as a consumer uses it."""

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
    """An entry, with one message or a batch of messages."""

    position: Position
    metadata: pb.MessageMetadata
    entry: bytes
    redelivery_count: int


class Consumer:
    """Receives the entries of one subscription in the order of their arrival."""

    def __init__(self, connection: Connected, number: int, read_ahead: int, after: Position = EARLIEST) -> None:
        """Create consumer ``number`` of ``connection``; ``started`` grants permits for ``read_ahead`` messages.

        Entries up to and including ``after`` are dropped, because a broker also sends a reader the entry at its start.
        """
        self.failure: Exception | None = None
        """The reason of the consumer's end; None while it is open."""
        self._connection = connection
        self._number = number
        self._read_ahead = read_ahead
        self._after = after
        self._used = 0
        """Permits used by received messages and not granted again yet."""
        self._queue: deque[Received] = deque()
        self._changed = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Number of entries in the queue."""
        return len(self._queue)

    def started(self) -> None:
        """Grant the first permits."""
        self._connection.write(commands.flow(consumer_id=self._number, message_permits=self._read_ahead))

    def read_further_ahead(self, messages: int) -> None:
        """Grant permits for so many messages more from now on."""
        if messages > 0:
            self._read_ahead += messages
            self._connection.write(commands.flow(consumer_id=self._number, message_permits=messages))

    async def receive(self) -> Received:
        """Return the next entry; raises the reason of the consumer's end when the queue is empty."""
        while (received := self.take()) is None:
            if self.failure is not None:
                raise self.failure
            self._changed.clear()
            await self._changed.wait()
        return received

    def take(self) -> Received | None:
        """Return the next entry of the queue; None if it is empty."""
        if not self._queue:
            return None
        received = self._queue.popleft()
        self._grant_again(received.metadata)
        return received

    def acknowledge(self, position: Position, *, cumulative: bool = False) -> None:
        """Acknowledge an entry, or all entries up to it if ``cumulative``, without waiting for the answer."""
        ids = [message_id(position)]
        self._connection.write(commands.ack(consumer_id=self._number, message_ids=ids, cumulative=cumulative))

    async def acknowledge_through(self, position: Position) -> None:
        """Acknowledge all entries up to and including ``position``; raises as PulsarConnection.request."""
        ids = [message_id(position)]
        await self._connection.request(
            lambda request_id: commands.ack(
                consumer_id=self._number, message_ids=ids, cumulative=True, request_id=request_id
            )
        )

    async def acknowledge_each(self, ids: Sequence[pb.MessageIdData]) -> None:
        """Acknowledge messages, or parts of batches; raises as PulsarConnection.request."""
        await self._connection.request(
            lambda request_id: commands.ack(consumer_id=self._number, message_ids=ids, request_id=request_id)
        )

    async def last_position(self) -> Position:
        """Return the position of the topic's last message, EARLIEST if empty; raises as PulsarConnection.request."""
        reply = await self._connection.request(
            lambda request_id: commands.get_last_message_id(consumer_id=self._number, request_id=request_id)
        )
        return max(EARLIEST, position_of(reply.getLastMessageIdResponse.last_message_id))

    def close(self) -> None:
        """Close the consumer; unacknowledged entries stay unacknowledged."""
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
        """Grant the permits of a message again, together with other permits."""
        self._used += max(1, metadata.num_messages_in_batch)
        if 2 * self._used >= self._read_ahead:
            permits, self._used = self._used, 0
            self._connection.write(commands.flow(consumer_id=self._number, message_permits=permits))

    def ended(self, failure: Exception) -> None:
        """See ConsumerEvents."""
        if self.failure is None:
            self.failure = failure
        self._changed.set()
