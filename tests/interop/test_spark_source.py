"""The data source of Spark reads Apache Pulsar."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from pulsar.schema import AvroSchema

from magnetar.spark.read.range_reader import ENTRY_TIMEOUT_SECONDS
from magnetar.wire.entries.markers import SNAPSHOT_REQUEST, build_marker
from tests.kit.messages import connect, numbered, publish, publish_in_batches
from tests.spark.queries import addresses, publish_entries, read, run_stream, values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pulsar
    from pyspark.sql import SparkSession

    from tests.kit.pulsar import PulsarStandalone

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def client(apache: PulsarStandalone) -> Iterator[pulsar.Client]:
    apache.rest.post("namespaces/public/default/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    connected = connect(apache.service_url)
    yield connected
    connected.close()


def test_batches_and_partitions_are_read_by_several_tasks(
    spark: SparkSession, apache: PulsarStandalone, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/partitioned"
    apache.rest.put("persistent/public/default/partitioned/partitions", 2)
    publish_in_batches(client, topic, numbered(1_000), 50)
    frame = read(spark, apache, topic=topic, minPartitions=4)
    assert frame.rdd.getNumPartitions() >= 4
    assert sorted(bytes(row["value"]) for row in frame.collect()) == sorted(numbered(1_000))
    entries = read(spark, apache, topic=topic, unit="entry").agg({"__messages": "sum"}).collect()
    assert entries[0][0] == 1_000


def test_a_stream_follows_its_subscription_and_limits(
    spark: SparkSession, apache: PulsarStandalone, client: pulsar.Client, tmp_path: Path
) -> None:
    topic = "persistent://public/default/followed"
    publish(client, topic, numbered(50), batching_enabled=False)
    options = {"topic": topic, "predefinedSubscription": "jobs", "maxMessagesPerTrigger": "20"}
    frame = spark.readStream.format("magnetar").options(**addresses(apache), **options).load()
    run_stream(frame, tmp_path)
    assert backlog(apache, topic) == 0
    apache.rest.put("persistent/public/default/followed/unload")  # the ledger that was read is deleted
    publish(client, topic, numbered(25, first=50), batching_enabled=False)
    assert backlog(apache, topic) == 25
    assert values(read(spark, apache, topic=topic, predefinedSubscription="jobs")) == numbered(25, first=50)
    run_stream(frame, tmp_path)
    assert backlog(apache, topic) == 0
    assert values(spark.read.parquet(str(tmp_path / "rows"))) == numbered(75)


def backlog(apache: PulsarStandalone, topic: str) -> int:
    stats = apache.rest.get(f"{topic.replace('://', '/')}/stats?getPreciseBacklog=true")
    return int(stats["subscriptions"]["jobs"]["msgBacklog"])


def test_a_query_starts_and_ends_by_time(spark: SparkSession, apache: PulsarStandalone, client: pulsar.Client) -> None:
    topic = "persistent://public/default/timed"
    publish(client, topic, numbered(10), batching_enabled=False)
    time.sleep(0.1)
    between = time.time_ns() // 1_000_000
    time.sleep(0.1)
    publish(client, topic, numbered(10, first=10), batching_enabled=False)
    assert values(read(spark, apache, topic=topic, endingTime=between)) == numbered(10)
    assert values(read(spark, apache, topic=topic, startingTime=json.dumps({topic: between}))) == numbered(10, first=10)
    assert values(read(spark, apache, topic=topic, startingTime=between + 3_600_000)) == []
    assert values(read(spark, apache, topic=topic, startingTime=between - 3_600_000)) == numbered(20)


def test_messages_in_chunks_are_put_together(
    spark: SparkSession, apache: PulsarStandalone, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/large"
    large = bytes(12_000_000)
    publish(client, topic, [large, b"small"], batching_enabled=False, chunking_enabled=True)
    assert values(read(spark, apache, topic=topic, minPartitions=3)) == [large, b"small"]


def test_values_are_decoded_with_their_versions(
    spark: SparkSession, apache: PulsarStandalone, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/orders"
    for fields in (["id"], ["id", "note"]):
        listed = [{"name": name, "type": ["null", "string"], "default": None} for name in fields]
        schema = AvroSchema(None, {"type": "record", "name": "Order", "fields": listed})
        producer = client.create_producer(topic, schema=schema)
        producer.send(dict.fromkeys(fields, "x"))
        producer.close()
    rows = read(spark, apache, topic=topic, decode="true").select("value.*").collect()
    assert sorted(map(str, (tuple(row) for row in rows))) == ["('x', 'x')", "('x', None)"]


def test_markers_are_no_rows_also_at_the_end_of_a_topic(
    spark: SparkSession, apache: PulsarStandalone, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/marked"
    for first in (0, 5):
        publish(client, topic, numbered(5, first=first), batching_enabled=False)
        marker = build_marker(SNAPSHOT_REQUEST, b"", publish_time_ms=time.time_ns() // 1_000_000)
        publish_entries(apache, topic, [marker] * 3)
    began = time.monotonic()
    assert values(read(spark, apache, topic=topic, minPartitions=8)) == numbered(10)
    assert time.monotonic() - began < ENTRY_TIMEOUT_SECONDS
