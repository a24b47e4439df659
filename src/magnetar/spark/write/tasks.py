"""The work of one task: its rows, published to their topics."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from magnetar.base.names import TopicName
from magnetar.spark.connecting import admin_client, pulsar_client
from magnetar.spark.write.routing import partition_of
from magnetar.spark.write.rows import key_text, rows_of
from magnetar.spark.write.targets import partitions_of
from magnetar.spark.write.topic_writer import TopicWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from magnetar.spark.write.attempt import Attempt
    from magnetar.spark.write.options import WriteOptions
    from magnetar.spark.write.rows import Row


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of a task."""

    messages: int
    """Number of messages that were published; those of an earlier attempt are not counted."""


def write_rows(options: WriteOptions, attempt: Attempt, batches: Iterator[pa.RecordBatch]) -> Written:
    """Publish the rows; return when all of them are durable. Raises as TopicWriter."""
    return asyncio.run(_Task(options, attempt).run(batches))


async def next_batch(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Return the next rows; None at the end. The loop goes on while Spark computes them, so connections stay alive."""
    return await asyncio.to_thread(next, batches, None)


class _Task:
    """The writers of a task, by topic or partition."""

    def __init__(self, options: WriteOptions, attempt: Attempt) -> None:
        self._options = options
        self._attempt = attempt
        self._client = pulsar_client(options)
        self._admin = admin_client(options)
        self._partitions: dict[str, int] = {}
        """Number of partitions by topic; 0: not partitioned."""
        self._writers: dict[tuple[str, int], TopicWriter] = {}

    async def run(self, batches: Iterator[pa.RecordBatch]) -> Written:
        with self._admin:
            async with self._client:
                while (batch := await next_batch(batches)) is not None:
                    await self._write(batch)
                for writer in self._writers.values():
                    await writer.finish()
        return Written(sum(writer.written for writer in self._writers.values()))

    async def _write(self, batch: pa.RecordBatch) -> None:
        for row in rows_of(batch):
            topic = row.topic or self._options.topic
            partitions = self._partitions.get(topic)
            if partitions is None:
                partitions = self._partitions[topic] = await asyncio.to_thread(
                    partitions_of, self._admin, TopicName.parse(topic)
                )
            place = topic, self._partition(row, partitions) if partitions else -1
            writer = self._writers.get(place)
            if writer is None:
                writer = self._writers[place] = await self._open(*place)
            complete = writer.add(row)
            if complete:
                await writer.send(complete)

    def _partition(self, row: Row, partitions: int) -> int:
        key = None if row.key is None else key_text(row.key, is_text=row.has_text_key)
        return partition_of(key, partitions, self._attempt.number)

    async def _open(self, topic: str, partition: int) -> TopicWriter:
        name = TopicName.parse(topic)
        part = str(name.partition(partition) if partition >= 0 else name)
        writer = TopicWriter(self._client, part, self._attempt, self._options)
        await writer.open(self._admin)
        return writer
