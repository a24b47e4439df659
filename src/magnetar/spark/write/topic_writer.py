"""The rows of one task for one topic or partition."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError, MagnetarError
from magnetar.base.names import TopicName
from magnetar.spark.write.entries import EntryBuilder
from magnetar.spark.write.published import published
from magnetar.spark.write.publisher import Publisher
from magnetar.spark.write.targets import lacking_deduplication

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient
    from magnetar.client.client import PulsarClient
    from magnetar.spark.write.attempt import Attempt
    from magnetar.spark.write.entries import Entry
    from magnetar.spark.write.options import WriteOptions
    from magnetar.spark.write.rows import Row

_log = logging.getLogger(__name__)


class OtherRowsError(MagnetarError):
    """A task that runs again has other rows than in its earlier run; the text names the topic and the task."""


class StaleBatchError(MagnetarError):
    """A later micro-batch of the same query was published already."""


class TopicWriter:
    """Builds and publishes entries; rows that an earlier attempt of the task has published are left out."""

    def __init__(self, client: PulsarClient, topic: str, attempt: Attempt, options: WriteOptions) -> None:
        """Create the writer of ``topic``; ``open`` connects."""
        self._topic = topic
        self._attempt = attempt
        self._options = options
        self._publisher = Publisher(client, topic, attempt, options)
        self._builder = EntryBuilder(options, attempt.producer_name, _now_ms)
        self._earlier: Counter[bytes] = Counter()
        """Digests of messages of an earlier attempt that are not among the rows yet."""
        self._first_rows = 0
        """Messages of an earlier attempt that are the first rows, and are not among them yet."""
        self.written = 0
        """Number of messages that this attempt published."""

    async def open(self, admin: AdminClient) -> None:
        """Connect, and find out how much an earlier attempt has published.

        Raises ConfigurationError if the topic has no deduplication, StaleBatchError, and as ``Publisher.open``.
        """
        last, attempt = await self._publisher.open(), self._attempt
        self._builder.start(max(attempt.first, last + 1))  # also for a topic that drops others as duplicates
        if not self._options.is_exactly_once:
            return
        await asyncio.to_thread(self._check_deduplication, admin)
        if last > attempt.last:
            message = (
                f"{self._topic} has later messages of {attempt.producer_name} than those of this micro-batch: another "
                "query uses the same checkpoint, or an earlier state of the checkpoint was restored"
            )
            raise StaleBatchError(message)
        if last >= attempt.first and attempt.has_same_order:
            self._first_rows = last + 1 - attempt.first
        elif last >= attempt.first:
            found = await asyncio.to_thread(
                published, self._options, self._topic, attempt.producer_name, attempt.first, last
            )
            self._earlier = Counter(found.values())
            # The digests of deleted ones are unknown. They were published first, so they are the first rows.
            self._first_rows = min(found, default=last + 1) - attempt.first
            _log.info(
                "earlier attempt: topic=%s producer=%s messages=%d deleted=%d",
                self._topic, attempt.producer_name, last + 1 - attempt.first, self._first_rows,
            )  # fmt: skip

    def add(self, row: Row) -> list[Entry]:
        """Add a row; return the entries that are complete now, for ``send``."""
        if self._first_rows:
            self._first_rows -= 1
            return []
        if self._earlier and self._is_published(row.digest()):
            return []
        self.written += 1
        return self._builder.add(row)

    def _is_published(self, digest: bytes) -> bool:
        """Return whether an earlier attempt published the row, and count it. After all of them, no row is hashed."""
        left = self._earlier[digest]
        if left > 1:
            self._earlier[digest] = left - 1
        else:
            del self._earlier[digest]  # without effect if it is not there
        return left > 0

    async def send(self, entries: list[Entry]) -> None:
        """Publish entries; raises as ``Publisher.send``."""
        for entry in entries:
            await self._publisher.send(entry)

    async def finish(self) -> None:
        """Return when all rows are durable; raises OtherRowsError, and as ``Publisher.flush``."""
        await self.send(self._builder.finish())
        await self._publisher.flush()
        await self._publisher.close()
        missing = self._first_rows + self._earlier.total()
        if missing:
            message = (
                f"{missing} messages that {self._attempt.producer_name} published to {self._topic} before are not "
                "among the rows of this run: the query gives other rows when it runs again"
                "\nhint: make it deterministic (no current time, random numbers or external state), "
                "or set deliveryGuarantee=at-least-once"
            )
            raise OtherRowsError(message)

    def _check_deduplication(self, admin: AdminClient) -> None:
        if status := lacking_deduplication(admin.topics.stats(TopicName.parse(self._topic))):
            message = (
                f"deduplication of {self._topic} is {status}, and exactly-once needs it"
                "\nhint: enable it for the topic, the namespace or the broker (brokerDeduplicationEnabled), "
                "or set deliveryGuarantee=at-least-once"
            )
            raise ConfigurationError(message)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
