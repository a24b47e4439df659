"""A producer of one connection: each sent entry gets a receipt."""

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
    """The connection, as a producer uses it."""

    def write(self, frame: bytes) -> None:
        """Send a frame."""
        ...

    async def close_producer(self, number: int) -> None:
        """Close a producer and wait for the answer."""
        ...

    def drop_producer(self, number: int) -> None:
        """Close a producer without waiting for the answer."""
        ...


class Producer:
    """Publishes to one topic; receipts arrive in the order of the sends."""

    def __init__(self, connection: Sending, number: int) -> None:
        """Create producer ``number`` of ``connection``; usable after the broker has accepted it."""
        self.name = ""
        self.last_origin: Position | None = None
        self.last_sequence_id = -1
        """Highest sequence id of this producer's name that the broker knew when it accepted the producer; -1: none."""
        self.failure: Exception | None = None
        self._connection = connection
        self._number = number
        self._sequence_ids = itertools.count()
        self._unacknowledged: deque[tuple[int, asyncio.Future[Position]]] = deque()
        self._ended = asyncio.Event()

    @property
    def unacknowledged(self) -> int:
        """Number of sends without a receipt."""
        return len(self._unacknowledged)

    def send(self, entry: bytes, *, num_messages: int = 1, marker: bool = False) -> asyncio.Future[Position]:
        """Publish an entry; the result of the future is its position, EARLIEST for a dropped duplicate.

        The future raises RequestError if the broker rejects the entry, or the reason of the producer's end if that
        comes first. If the producer has ended already, this method raises that reason.
        """
        sequence_id = next(self._sequence_ids)
        receipt = self._expect(sequence_id)
        frame = commands.send(
            producer_id=self._number,
            sequence_id=sequence_id,
            entry=entry,
            num_messages=num_messages,
            marker=marker,
        )
        self._connection.write(frame)
        return receipt

    def send_batch(self, entry: bytes, sequence_ids: tuple[int, int], num_messages: int) -> asyncio.Future[Position]:
        """Publish a batch, whose first and last message have ``sequence_ids``; as ``send``.

        A producer uses either this method or ``send``.
        """
        receipt = self._expect(sequence_ids[0])
        frame = commands.send_batch(
            producer_id=self._number, sequence_ids=sequence_ids, entry=entry, num_messages=num_messages
        )
        self._connection.write(frame)
        return receipt

    async def close(self) -> None:
        """Close the producer after all receipts; no effect if it has ended."""
        if self.failure is None:
            await self._connection.close_producer(self._number)

    def drop(self) -> None:
        """Close the producer without waiting for receipts; no effect if it has ended."""
        self._connection.drop_producer(self._number)

    async def wait_ended(self) -> None:
        """Return when the producer has ended; ``failure`` is the reason."""
        await self._ended.wait()

    def admitted(self, success: pb.CommandProducerSuccess) -> None:
        """Apply the broker's answer to PRODUCER."""
        self.name = success.producer_name
        self.last_sequence_id = success.last_sequence_id
        self._sequence_ids = itertools.count(success.last_sequence_id + 1)
        if success.HasField("last_origin_message_id"):
            self.last_origin = position_of(success.last_origin_message_id)

    def receipted(self, receipt: pb.CommandSendReceipt) -> None:
        """Complete the oldest send; raises RemoteProtocolError if the receipt is for another one."""
        waiting = self._oldest(receipt.sequence_id)
        if not waiting.done():
            waiting.set_result(position_of(receipt.message_id))

    def refused(self, error: pb.CommandSendError) -> None:
        """Fail the oldest send; raises RemoteProtocolError if the error is for another one."""
        waiting = self._oldest(error.sequence_id)
        if not waiting.done():
            waiting.set_exception(RequestError(ServerError(error.error), error.message))

    def ended(self, failure: Exception) -> None:
        """Fail all pending and later sends."""
        self.failure = failure
        for _, waiting in self._unacknowledged:
            if not waiting.done():
                waiting.set_exception(failure)
        self._unacknowledged.clear()
        self._ended.set()

    def _expect(self, sequence_id: int) -> asyncio.Future[Position]:
        """Return a future for the receipt of an entry; raises the reason of the producer's end."""
        if self.failure is not None:
            raise self.failure
        receipt: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        self._unacknowledged.append((sequence_id, receipt))
        return receipt

    def _oldest(self, sequence_id: int) -> asyncio.Future[Position]:
        """Remove and return the oldest send, which must have this sequence id."""
        if not self._unacknowledged or self._unacknowledged[0][0] != sequence_id:
            message = f"receipt for sequence id {sequence_id} of producer {self.name}, which is not the oldest sent"
            raise RemoteProtocolError(message)
        return self._unacknowledged.popleft()[1]
