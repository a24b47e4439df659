"""The data source, on a real Spark, of a real broker with messages of the official client."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pulsar
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.streaming.datasource import ReadAllAvailable

from magnetar.spark import MagnetarDataSource, columns
from magnetar.spark.read.cluster import Cluster
from magnetar.wire.entries.batch import decompress
from magnetar.wire.entries.entry import parse_metadata, payload_of
from tests.kit.messages import numbered, publish, publish_in_batches
from tests.spark.queries import addresses, read, run_stream, stored, values

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.kit.broker import Broker

pytestmark = pytest.mark.timeout(240)


def test_a_topic_is_read_completely_and_by_several_tasks(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    publish(client, topic, numbered(100), batching_enabled=False)
    frame = read(spark, broker, topic=topic, minPartitions=4)
    assert frame.rdd.getNumPartitions() == 4
    assert values(frame) == numbered(100)


def test_the_columns_have_what_the_producer_wrote(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, producer_name="shop")
    sent = producer.send(b"hello", partition_key="k", properties={"colour": "red"}, event_timestamp=1_700_000_000_000)
    (row,) = read(spark, broker, topic=topic).collect()
    assert (bytes(row["value"]), bytes(row["__key"]), row["__topic"]) == (b"hello", b"k", topic)
    assert row["__messageProperties"] == {"colour": "red"}
    assert row["__eventTime"].astimezone(UTC) == datetime.fromtimestamp(1_700_000_000, UTC)
    assert (row["__producerName"], row["__sequenceId"], row["__originCluster"]) == ("shop", 0, None)
    assert (row["__ledgerId"], row["__entryId"]) == (sent.ledger_id(), sent.entry_id())
    restored = pulsar.MessageId.deserialize(bytes(row["__messageId"]))
    assert (restored.ledger_id(), restored.entry_id()) == (sent.ledger_id(), sent.entry_id())


def test_all_partitions_of_a_topic_are_read(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    broker.rest.put(f"persistent/{topic.partition('://')[2]}/partitions", 3)
    publish(client, topic, numbered(30), batching_enabled=False)
    rows = read(spark, broker, topic=topic).collect()
    assert sorted(bytes(row["value"]) for row in rows) == sorted(numbered(30))
    assert {row["__topic"] for row in rows} == {f"{topic}-partition-{index}" for index in range(3)}


def test_topics_are_selected_by_a_pattern(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    for suffix in ("-a", "-b", "x"):
        publish(client, topic + suffix, [suffix.encode()])
    found = read(spark, broker, topicsPattern=f"{topic}-.").collect()
    assert sorted(bytes(row["value"]) for row in found) == [b"-a", b"-b"]


def test_a_range_of_positions_includes_its_start_and_excludes_its_end(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    ids = publish(client, topic, numbered(50), batching_enabled=False)
    bounds = [json.dumps({topic: f"{ids[index].ledger_id()}:{ids[index].entry_id()}"}) for index in (15, 45)]
    frame = read(spark, broker, topic=topic, startingOffsets=bounds[0], endingOffsets=bounds[1])
    assert values(frame) == numbered(50)[15:45]


@pytest.mark.parametrize("tasks", [1, 7])
def test_a_message_in_chunks_is_one_row(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str, tasks: int
) -> None:
    """With seven tasks asked for, chunks of a message lie in different ranges. Tasks have about equal bytes."""
    large = [bytes([letter]) * 11_000_000 for letter in b"ab"]
    sent = publish(client, topic, [large[0], b"small", large[1]], batching_enabled=False, chunking_enabled=True)
    frame = read(spark, broker, topic=topic, minPartitions=tasks)
    assert (frame.rdd.getNumPartitions() > 1) == (tasks > 1)
    rows = frame.orderBy("__ledgerId", "__entryId").collect()
    assert [bytes(row["value"]) for row in rows] == [large[0], b"small", large[1]]
    ids = [pulsar.MessageId.deserialize(bytes(row["__messageId"])) for row in rows]
    assert [str(one) for one in ids] == [str(one) for one in sent]


def test_a_row_of_unit_entry_is_what_is_stored(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    publish_in_batches(client, topic, numbered(5), 5)
    large = bytes(200_000) + b"end"
    publish(client, topic, [large], batching_enabled=False, compression_type=pulsar.CompressionType.ZLib)
    batch, single = read(spark, broker, topic=topic, unit="entry").orderBy("__ledgerId", "__entryId").collect()
    assert (batch["__messages"], batch["__isBatch"], batch["__compression"]) == (5, True, "NONE")
    assert (single["__messages"], single["__isBatch"], single["__compression"]) == (1, False, "ZLIB")
    assert single["__uncompressedSize"] == len(large)
    assert single["__entrySize"] == len(single["value"]) < 1_000
    metadata = parse_metadata(bytes(single["value"]))
    assert decompress(metadata, payload_of(bytes(single["value"]))) == large
    assert (single["__producerName"], single["__sequenceId"]) == (metadata.producer_name, metadata.sequence_id)


def test_an_empty_topic_has_no_rows(spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic).close()
    assert read(spark, broker, topic=topic).collect() == []


def test_only_the_columns_of_a_schema_are_built(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    publish(client, topic, numbered(3))
    reader = spark.read.format("magnetar").schema("__entryId long, value binary")
    given = {**addresses(broker), "topic": topic}
    assert [row.asDict().keys() for row in reader.options(**given).load().limit(1).collect()] == [
        {"__entryId", "value"}
    ]


def test_lost_entries_fail_the_query_unless_it_accepts_them(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    publish(client, topic, numbered(3), batching_enabled=False)
    start = json.dumps({topic: "1:0"})
    with pytest.raises(PySparkException, match="entries were deleted"):
        read(spark, broker, topic=topic, startingOffsets=start).collect()
    frame = read(spark, broker, topic=topic, startingOffsets=start, failOnDataLoss="false")
    assert values(frame) == numbered(3)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "set one of the options topic, topics and topicsPattern"),
        ({"topic": "a", "colour": "red"}, "option colour"),
        ({"topic": "a", "minPartitions": "none"}, "option minPartitions"),
        ({"topic": "a", "startingOffsets": "soon"}, "option startingOffsets"),
        ({"topicsPattern": "public/default/["}, "option topicsPattern"),
    ],
)
def test_a_wrong_option_is_named(spark: SparkSession, broker: Broker, options: dict[str, Any], reason: str) -> None:
    with pytest.raises((AnalysisException, PySparkException), match=reason):
        read(spark, broker, **options).collect()


@pytest.mark.parametrize("options", [{"endingTime": 5}, {"endingOffsets": "latest"}])
def test_an_end_is_refused_for_a_stream(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, options: dict[str, str | int]
) -> None:
    frame = spark.readStream.format("magnetar").options(**addresses(broker), topic=topic, **options).load()
    with pytest.raises(PySparkException, match="is for batch queries only"):
        run_stream(frame, tmp_path)


def test_a_stream_gives_each_message_once_across_restarts(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    def run() -> None:
        frame = spark.readStream.format("magnetar").options(**addresses(broker), topic=topic, maxBytesPerTrigger=2_000)
        run_stream(frame.load(), tmp_path)

    publish(client, topic, numbered(60), batching_enabled=False)
    run()
    publish(client, topic, numbered(40, first=60), batching_enabled=False)
    run()
    assert values(spark.read.parquet(str(tmp_path / "rows"))) == numbered(100)


def test_a_batch_that_is_planned_again_has_the_same_tasks(
    broker: Broker, client: pulsar.Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**addresses(broker), "topic": topic, "minPartitions": "3"}
    publish(client, topic, numbered(50), batching_enabled=False)
    reader = MagnetarDataSource(given).streamReader(columns.all_columns())
    start = stored(reader.initialOffset())
    end = stored(reader.latestOffset(start, reader.getDefaultReadLimit()))
    planned = reader.partitions(start, end)
    assert len(planned) == 3
    publish(client, topic, numbered(75), batching_enabled=False)
    monkeypatch.setattr(Cluster, "__init__", None)  # a plan that asks the cluster would fail
    again = MagnetarDataSource({**given, "minPartitions": "9"}).streamReader(columns.all_columns())
    assert again.partitions(start, end) == planned
    assert sum(len(batch) for one in again.partitions(start, end) for batch in again.read(one)) == 50


def test_an_offset_without_new_messages_is_unchanged(broker: Broker, client: pulsar.Client, topic: str) -> None:
    given = {**addresses(broker), "topic": topic}
    publish(client, topic, numbered(5), batching_enabled=False)
    reader = MagnetarDataSource(given).streamReader(columns.all_columns())
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end


def test_a_batch_is_bounded_by_messages_and_no_entry_is_split(
    broker: Broker, client: pulsar.Client, topic: str
) -> None:
    topics = {f"{topic}-large": 7, f"{topic}-small": 2}
    for name, per_batch in topics.items():
        publish_in_batches(client, name, numbered(70), per_batch)
    given = {**addresses(broker), "topics": ",".join(topics), "maxMessagesPerTrigger": "44"}
    reader = MagnetarDataSource(given).streamReader(columns.all_columns())
    start, batches = stored(reader.initialOffset()), []
    while (end := stored(reader.latestOffset(start, reader.getDefaultReadLimit()))) != start:
        tasks = [rows for task in reader.partitions(start, end) for rows in reader.read(task)]
        batches.append([row for rows in tasks for row in rows.to_pylist()])
        start = end
    # The shares of 10 of 45 and 35 of 45 entries are 9 and 34 messages, and those of the rest 14 and 29.
    assert [len(batch) for batch in batches[:2]] == [7 + 34, 14 + 28]
    for name in topics:
        assert [row["value"] for batch in batches for row in batch if row["__topic"] == name] == numbered(70)


def test_a_trigger_without_limit_takes_everything(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish(client, topic, numbered(9), batching_enabled=False)
    given = {**addresses(broker), "topic": topic, "maxMessagesPerTrigger": "4", "maxBytesPerTrigger": "1"}
    reader = MagnetarDataSource(given).streamReader(columns.all_columns())
    start = reader.initialOffset()
    for limit, entries in ((ReadAllAvailable(), 9), (reader.getDefaultReadLimit(), 1)):
        (task,) = reader.partitions(start, reader.latestOffset(start, limit))
        assert sum(len(rows) for rows in reader.read(task)) == entries
