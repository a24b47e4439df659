"""The publication of archived messages by a task, and what their targets have before."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.base.names import TopicName
from magnetar.spark.connecting import admin_client, pulsar_client
from magnetar.spark.read.cluster import ledgers_in
from magnetar.spark.write.attempt import Attempt
from magnetar.spark.write.publisher import Publisher
from magnetar.spark.write.rows import rows_of
from magnetar.spark.write.targets import lacking_deduplication, partitions_of
from magnetar.spark.write.tasks import next_batch
from magnetar.spark.write.topic_writer import TopicWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from magnetar.admin.client import AdminClient
    from magnetar.spark.write.options import WriteOptions


@dataclass(frozen=True, slots=True)
class Publication:
    """How messages are published."""

    options: WriteOptions
    names: Mapping[str, str]
    """The name of the producer by topic or partition."""

    def attempt(self, topic: str) -> Attempt:
        """Return an attempt to publish the messages of a topic or partition."""
        return Attempt(self.names[topic], 0, 0, has_same_order=True)

    def publish(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Publish rows that are sorted by topic and in the order of the log; return their number when they are durable.

        Rows that an earlier attempt has published are left out, and not counted. Raises as TopicWriter.
        """
        return asyncio.run(self._publish(batches))

    async def _publish(self, batches: Iterator[pa.RecordBatch]) -> int:
        topic, writer, count = None, None, 0
        with admin_client(self.options) as admin:
            async with pulsar_client(self.options) as client:
                while (batch := await next_batch(batches)) is not None:
                    for row in rows_of(batch):
                        if row.topic != topic:
                            count += await _finish(writer)
                            topic = str(row.topic)
                            writer = TopicWriter(client, topic, self.attempt(topic), self.options)
                            await writer.open(admin)
                        assert writer is not None
                        if complete := writer.add(row):
                            await writer.send(complete)
                return count + await _finish(writer)

    def published(self) -> dict[str, int]:
        """Return how many messages an earlier attempt has published, by topic or partition; creates missing topics.

        Raises as ``Publisher.open``.
        """
        return asyncio.run(self._published())

    async def _published(self) -> dict[str, int]:
        found = {}
        async with pulsar_client(self.options) as client:
            for topic in self.names:
                publisher = Publisher(client, topic, self.attempt(topic), self.options)
                found[topic] = await publisher.open() + 1
                await publisher.close()
        return found


async def _finish(writer: TopicWriter | None) -> int:
    if writer is None:
        return 0
    await writer.finish()
    return writer.written


class Targets:
    """The topics and partitions to which messages are published. Methods raise as AdminClient."""

    def __init__(self, admin: AdminClient, topics: list[str]) -> None:
        """Ask ``admin`` about ``topics``, which are partitions for partitioned topics."""
        self._admin = admin
        self._topics = topics
        self._before: dict[str, int] = {}

    def check_partitions(self) -> None:
        """Raise ConfigurationError unless the cluster has the partitions that the archive has."""
        wanted: dict[str, int] = {}
        for topic in self._topics:
            name = TopicName.parse(topic)
            base = str(name.partitioned_topic)
            wanted[base] = max(wanted.get(base, 0), name.partition_index + 1)
        for base, least in wanted.items():
            found = partitions_of(self._admin, TopicName.parse(base))
            if found < least or (found and not least):
                has = f"{found} partitions" if found else "no partitions"
                needs = f"messages of partition {least - 1}" if least else "a topic without partitions"
                message = f"{base} has {has}, and the archive has {needs}"
                hint = f"create it with at least {least} partitions" if least else "name another topic with --to"
                text = f"{message}\nhint: {hint}"
                raise ConfigurationError(text)

    def check_state(self, published: Mapping[str, int], *, is_append: bool) -> None:
        """Raise ConfigurationError for a topic without deduplication.

        Without ``is_append``, raise it also for one that has messages, but none of the ``published`` ones.
        """
        for topic in self._topics:
            stats = self._admin.topics.stats(TopicName.parse(topic))
            if status := lacking_deduplication(stats):
                message = (
                    f"deduplication of {topic} is {status}, and needed so that no message is published twice"
                    "\nhint: enable it for the topic: magnetar topicPolicies set-deduplication TOPIC --enable"
                )
                raise ConfigurationError(message)
            if not published[topic] and not is_append and self._entries(topic):
                message = f"{topic} has messages\nhint: name another topic with --to, or add to these with --append"
                raise ConfigurationError(message)
            self._before[topic] = stats["msgInCounter"]

    def received(self) -> int:
        """Return about how many messages the topics got since ``check_state``."""
        found = {topic: self._admin.topics.stats(TopicName.parse(topic))["msgInCounter"] for topic in self._topics}
        return sum(max(0, now - self._before[topic]) for topic, now in found.items())

    def _entries(self, topic: str) -> int:
        stats = self._admin.topics.internal_stats(TopicName.parse(topic))
        return sum(ledger.entries for ledger in ledgers_in(stats))
