"""A producer of one connection: each entry that it sends gets a receipt."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RemoteProtocolError, RequestError, ServerError
from magnetar.wire import commands
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class Sending(Protocol):
    """What a producer needs of its connection."""

    def write(self, frame: bytes) -> None:
        """Send a frame."""
        ...

    async def close_producer(self, number: int) -> None:
        """Close a producer and wait for the answer."""
        ...


class Producer:
    """Publishes to one topic; receipts come in the order of the sends."""

    def __init__(self, connection: Sending, number: int) -> None:
        """Be producer ``number`` of ``connection``, once the broker admits it."""
        self.name = ""
        self.last_origin: Position | None = None
        self.failure: Exception | None = None
        self._connection = connection
        self._number = number
        self._sequence_ids = itertools.count()
        self._unacknowledged: deque[tuple[int, asyncio.Future[Position]]] = deque()
        self._ended = asyncio.Event()

    @property
    def unacknowledged(self) -> int:
        """How many sends wait for their receipt."""
        return len(self._unacknowledged)

    def send(self, entry: bytes, *, num_messages: int = 1, marker: bool = False) -> asyncio.Future[Position]:
        """Publish an entry; the future gives its position, EARLIEST for one that was dropped as a duplicate.

        The future raises RequestError when the broker refuses the entry, and what ended the producer when that comes
        first. Raises that at once when the producer has ended.
        """
        if self.failure is not None:
            raise self.failure
        sequence_id = next(self._sequence_ids)
        receipt: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        self._unacknowledged.append((sequence_id, receipt))
        frame = commands.send(
            producer_id=self._number,
            sequence_id=sequence_id,
            entry=entry,
            num_messages=num_messages,
            marker=marker,
        )
        self._connection.write(frame)
        return receipt

    async def close(self) -> None:
        """Give the producer up, after the receipts of what was sent; does nothing when it has ended."""
        if self.failure is None:
            await self._connection.close_producer(self._number)

    async def wait_ended(self) -> None:
        """Return when the producer has ended; ``failure`` says why."""
        await self._ended.wait()

    def admitted(self, success: pb.CommandProducerSuccess) -> None:
        """Take over what the broker says of the producer."""
        self.name = success.producer_name
        self._sequence_ids = itertools.count(success.last_sequence_id + 1)
        if success.HasField("last_origin_message_id"):
            self.last_origin = position_of(success.last_origin_message_id)

    def receipted(self, receipt: pb.CommandSendReceipt) -> None:
        """Settle the oldest send; raises RemoteProtocolError when the receipt is another's."""
        waiting = self._oldest(receipt.sequence_id)
        if not waiting.done():
            waiting.set_result(position_of(receipt.message_id))

    def refused(self, error: pb.CommandSendError) -> None:
        """Fail the oldest send; raises RemoteProtocolError when the refusal is another's."""
        waiting = self._oldest(error.sequence_id)
        if not waiting.done():
            waiting.set_exception(RequestError(ServerError(error.error), error.message))

    def ended(self, failure: Exception) -> None:
        """Fail what waits and refuse what comes."""
        self.failure = failure
        for _, waiting in self._unacknowledged:
            if not waiting.done():
                waiting.set_exception(failure)
        self._unacknowledged.clear()
        self._ended.set()

    def _oldest(self, sequence_id: int) -> asyncio.Future[Position]:
        """Take the oldest send, which must have this sequence id."""
        if not self._unacknowledged or self._unacknowledged[0][0] != sequence_id:
            message = f"receipt for sequence id {sequence_id} of producer {self.name}, which is not the oldest sent"
            raise RemoteProtocolError(message)
        return self._unacknowledged.popleft()[1]
