"""The sink, on a real Spark and a real broker; rows are read back with the official client."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f

from tests.kit.broker import Broker
from tests.kit.messages import connect, numbered, publish, read_log
from tests.spark.queries import addresses

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pulsar
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(240)

PUBLISHING_S = 1.0
"""Time in which the sink publishes rows that it has got."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("sink")) as running:
        retention = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        running.rest.post("namespaces/public/default/retention", retention)
        running.rest.post("namespaces/public/default/deduplication", True)
        yield running


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[pulsar.Client]:
    connected = connect(broker.service_url)
    yield connected
    connected.close()


def write(frame: DataFrame, broker: Broker, **others: str) -> None:
    frame.write.format("magnetar").options(**addresses(broker), **others).mode("append").save()


def values(client: pulsar.Client, topic: str) -> list[bytes]:
    return [message.data() for message in read_log(client, topic)]


def test_rows_become_messages_with_all_their_columns(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    time = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    rows = [("hello", "k", time, {"colour": "red"}), ("again", None, None, None)]
    columns = "value string, __key string, __eventTime timestamp, __messageProperties map<string,string>"
    write(spark.createDataFrame(rows, columns).coalesce(1), broker, topic=topic)
    first, second = read_log(client, topic)
    assert (first.data(), first.partition_key(), first.properties()) == (b"hello", "k", {"colour": "red"})
    assert first.event_timestamp() == time.timestamp() * 1000
    assert (second.data(), second.partition_key(), second.properties()) == (b"again", "", {})


def test_rows_go_to_the_topics_of_their_column_and_to_partitions_by_key(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    broker.rest.put(f"persistent/{topic.partition('://')[2]}-parts/partitions", 3)
    plain, parted = f"{topic}-plain", f"{topic}-parts"
    rows = [(plain if number % 2 else parted, str(number), f"key-{number % 10}") for number in range(100)]
    write(spark.createDataFrame(rows, "__topic string, value string, __key string").repartition(2), broker)
    assert sorted(map(int, values(client, plain))) == list(range(1, 100, 2))
    by_partition = [read_log(client, f"{parted}-partition-{index}") for index in range(3)]
    assert sorted(int(each.data()) for part in by_partition for each in part) == list(range(0, 100, 2))
    keys = [{each.partition_key() for each in part} for part in by_partition]
    assert sum(map(len, keys)) == len(set.union(*keys)), "a key has one partition"


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZSTD"])
def test_clients_read_batches_of_each_compression(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str, compression: str
) -> None:
    frame = spark.range(5_000).coalesce(1).select(f.col("id").cast("string").alias("value"))
    write(frame, broker, topic=topic, **{"pulsar.producer.compressionType": compression})
    assert values(client, topic) == numbered(5_000)


def test_a_row_that_is_too_large_is_named(spark: SparkSession, broker: Broker, topic: str) -> None:
    frame = spark.range(1).select(f.expr("repeat('x', 6000000)").alias("value"))
    with pytest.raises(PySparkException, match=r"a message for \S+ has 6000078 bytes; the broker accepts 5242880"):
        write(frame, broker, topic=topic)


def test_exactly_once_needs_deduplication(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    client.create_producer(topic).close()
    broker.rest.post(f"persistent/{topic.partition('://')[2]}/deduplicationEnabled", False)
    frame = spark.range(3).coalesce(1).select(f.col("id").cast("string").alias("value"))
    with pytest.raises(PySparkException, match=f"deduplication of {topic} is Disabled"):
        write(frame, broker, topic=topic)
    write(frame, broker, topic=topic, deliveryGuarantee="at-least-once")
    assert values(client, topic) == numbered(3)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"colour": "red"}, "option colour"),
        ({"deliveryGuarantee": "twice"}, "option deliveryGuarantee"),
        ({"pulsar.producer.compressionType": "RAR"}, "'RAR' is not one of NONE, LZ4"),
        ({"topic": ""}, "name the topic either"),
    ],
)
def test_a_wrong_option_is_named(spark: SparkSession, broker: Broker, given: dict[str, Any], reason: str) -> None:
    with pytest.raises((AnalysisException, PySparkException), match=reason):
        write(spark.range(1).selectExpr("string(id) AS value"), broker, **{"topic": "t", **given})


def test_a_task_that_runs_again_publishes_only_what_is_missing(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    """The first attempt dies after it has published a part; the second one gets its rows in another order."""
    mark = tmp_path / "first"

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        is_first = not mark.exists()
        mark.touch()
        found = [text for batch in batches for text in batch.column(0).to_pylist()][:: -1 if is_first else 1]
        for first in range(0, len(found), 1_000):
            if is_first and first == 15_000:
                time.sleep(PUBLISHING_S)
                os.kill(os.getpid(), signal.SIGKILL)
            yield pa.RecordBatch.from_pydict({"value": found[first : first + 1_000]})

    frame = spark.range(0, 20_000, numPartitions=1).select(f.col("id").cast("string").alias("value"))
    write(frame.mapInArrow(rows, "value string"), broker, topic=topic)
    found = list(map(int, values(client, topic)))
    assert sorted(found) == list(range(20_000))
    assert found[0] == 19_999, "the first attempt published a part"


def test_a_query_that_gives_other_rows_when_it_runs_again_fails(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    mark = tmp_path / "attempts"

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        attempt = len(mark.read_text()) if mark.exists() else 0
        mark.write_text("x" * (attempt + 1))
        found = [f"{attempt}-{text}" for batch in batches for text in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_pydict({"value": found[:15_000]})
        if attempt == 0:
            time.sleep(PUBLISHING_S)
            raise RuntimeError
        yield pa.RecordBatch.from_pydict({"value": found[15_000:]})

    frame = spark.range(0, 20_000, numPartitions=1).select(f.col("id").cast("string").alias("value"))
    with pytest.raises(PySparkException, match="the query gives other rows when it runs again"):
        write(frame.mapInArrow(rows, "value string"), broker, topic=topic)


@pytest.mark.parametrize("guarantee", ["exactly-once", pytest.param("at-least-once", marks=pytest.mark.long)])
def test_a_stream_is_published_across_restarts(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str, tmp_path: Path, guarantee: str
) -> None:
    copy = f"{topic}-copy"

    def run() -> None:
        frame = spark.readStream.format("magnetar").schema("value binary, __key binary")
        query = frame.options(**addresses(broker), topic=topic, maxBytesPerTrigger="2000").load().writeStream
        query = query.format("magnetar").options(**addresses(broker), topic=copy, deliveryGuarantee=guarantee)
        query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()

    publish(client, topic, numbered(60), batching_enabled=False)
    run()
    publish(client, topic, numbered(40, first=60), batching_enabled=False)
    (tmp_path / "commits" / "1").unlink()  # as if the driver had died after the tasks of the micro-batch
    for later in sorted((tmp_path / "commits").glob("[2-9]*")):
        later.unlink()
    run()
    found = values(client, copy)
    if guarantee == "exactly-once":
        assert found == numbered(100)
    else:
        assert sorted(set(map(int, found))) == list(range(100))
        assert len(found) > 100, "the micro-batches that ran again were published again"
