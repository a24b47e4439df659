"""Publication of a task's entries to one topic or partition, across lost connections."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.base.limits import FRAME_SIZE_PADDING
from magnetar.spark.write.entries import check_size
from magnetar.spark.write.published import published

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.client.client import PulsarClient
    from magnetar.client.producer import Producer
    from magnetar.spark.write.attempt import Attempt
    from magnetar.spark.write.entries import Entry
    from magnetar.spark.write.options import WriteOptions

WINDOW_ENTRIES = 1_000
"""Entries without a receipt; ``maxPendingMessages`` of Pulsar's Java client."""

WINDOW_BYTES = 16 * 2**20
"""Bytes of entries without a receipt."""

PRODUCER_TIMEOUT_SECONDS = 90.0
"""Time to create the producer. A broker refuses it while an earlier attempt holds the name, and takes up to twice
``keepAliveIntervalSeconds`` to notice that the host of such an attempt is gone."""

PAUSE_SECONDS = 0.5
"""Pause before a further attempt to create the producer."""

_FINAL = frozenset(
    {
        ServerError.AuthenticationError,
        ServerError.AuthorizationError,
        ServerError.IncompatibleSchema,
        ServerError.InvalidTopicName,
        ServerError.NotAllowedError,
        ServerError.TopicNotFound,
        ServerError.TopicTerminatedError,
        ServerError.UnsupportedVersionError,
    }
)
"""Refusals that do not change."""


class OtherAttemptError(MagnetarError):
    """Another attempt of the same task published in the meantime. Spark runs the task again."""


class Publisher:
    """Publishes entries in order, and sends each of them again until the broker has answered it."""

    def __init__(self, client: PulsarClient, topic: str, attempt: Attempt, options: WriteOptions) -> None:
        """Create a publisher; ``open`` connects."""
        self._client = client
        self._topic = topic
        self._attempt = attempt
        self._options = options
        self._producer: Producer
        self._size_max = 0
        self._unanswered: deque[tuple[Entry, asyncio.Future[Position]]] = deque()
        self._unanswered_bytes = 0
        self._last_answered = -1
        """Highest sequence id that was published for certain."""

    async def open(self) -> int:
        """Create the producer; return the highest sequence id that the broker knows of its name, -1 for none.

        Raises the last error after PRODUCER_TIMEOUT_SECONDS, and RequestError at once for a refusal that does not
        change.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + PRODUCER_TIMEOUT_SECONDS
        while True:
            try:
                owner = await self._client.owner(self._topic)
                self._producer = await owner.create_producer(self._topic, self._attempt.producer_name)
            except (OSError, MagnetarError) as error:
                if _is_final(error) or loop.time() >= end:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                self._size_max = owner.frame_size_max - FRAME_SIZE_PADDING
                self._last_answered = max(self._last_answered, self._producer.last_sequence_id)
                return self._producer.last_sequence_id

    async def send(self, entry: Entry) -> None:
        """Send an entry, after others if too many have no receipt; raises as ``flush``, and UnwritableRowError."""
        check_size(entry, self._topic, self._size_max)
        while len(self._unanswered) >= WINDOW_ENTRIES or self._unanswered_bytes > WINDOW_BYTES:
            await self._answered()
        self._transmit(entry)
        self._unanswered_bytes += len(entry.data)

    async def flush(self) -> None:
        """Return when all entries are durable.

        Raises RequestError for an entry that the broker refuses, OtherAttemptError, and as ``open`` when the connection
        is lost and cannot be opened again.
        """
        while self._unanswered:
            await self._answered()

    async def close(self) -> None:
        """Close the producer after ``flush``, so that its name is free."""
        await self._producer.close()

    def _transmit(self, entry: Entry) -> None:
        try:
            receipt = self._producer.send_batch(
                entry.data, (entry.sequence_id, entry.highest_sequence_id), len(entry.rows)
            )
        except (OSError, MagnetarError) as error:  # the producer has ended
            receipt = asyncio.get_running_loop().create_future()
            receipt.set_exception(error)
        receipt.add_done_callback(_retrieve)
        self._unanswered.append((entry, receipt))

    async def _answered(self) -> None:
        """Wait for the oldest receipt. After an error, open the producer again and send all entries again."""
        entry, receipt = self._unanswered[0]
        timeout_s = self._options.send_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                await receipt
        except (OSError, MagnetarError) as error:
            if _is_final(error):
                raise
            self._producer.drop()
            await self._open_again()
            return
        self._unanswered.popleft()
        self._unanswered_bytes -= len(entry.data)
        self._last_answered = max(self._last_answered, entry.highest_sequence_id)

    async def _open_again(self) -> None:
        answered = self._last_answered
        entries = [entry for entry, _ in self._unanswered]
        last = await self.open()
        if self._options.is_exactly_once and last > answered:
            await self._check_own(entries, last)
        self._unanswered.clear()
        for entry in entries:
            self._transmit(entry)

    async def _check_own(self, entries: list[Entry], last: int) -> None:
        """Raise OtherAttemptError unless the messages up to ``last`` are those of the first ``entries``.

        Deduplication compares sequence ids only, so it would drop other messages in silence.
        """
        sent = {
            sequence_id: row.digest()
            for entry in entries
            for sequence_id, row in enumerate(entry.rows, entry.sequence_id)
        }
        first = entries[0].sequence_id
        found = await asyncio.to_thread(published, self._options, self._topic, self._attempt.producer_name, first, last)
        kept = range(min(found, default=last + 1), last + 1)  # earlier ones may be deleted already
        if last not in sent or any(sent[sequence_id] != found.get(sequence_id) for sequence_id in kept):
            message = f"another attempt of this task has published to {self._topic} as {self._attempt.producer_name}"
            raise OtherAttemptError(message)


def _is_final(error: Exception) -> bool:
    return isinstance(error, RequestError) and error.code in _FINAL


def _retrieve(receipt: asyncio.Future[Position]) -> None:
    """Mark an error as seen: the first one is handled, and it concerns the later entries as well."""
    if not receipt.cancelled():
        receipt.exception()
