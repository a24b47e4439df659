"""Starts and ends of queries by time, and by a subscription that follows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pulsar
import pytest
from pyspark.errors import PySparkException

from tests.kit.messages import numbered, publish, receive_data
from tests.kit.raw import entry
from tests.spark.queries import addresses, publish_entries, read, run_stream, values

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.kit.broker import Broker

pytestmark = pytest.mark.timeout(240)


def test_a_range_of_times_is_a_range_of_the_log(spark: SparkSession, broker: Broker, topic: str) -> None:
    times = [100, 300, 200, 900, 400, 700, 500, 600, 800]  # not sorted
    publish_entries(broker, topic, [entry(b"%d" % at, publish_time=at) for at in times])
    payloads = [b"%d" % at for at in times]
    frame = read(spark, broker, topic=topic, startingTime=250, endingTime=json.dumps({topic: 650}))
    assert values(frame) == payloads[1:3]
    assert values(read(spark, broker, topic=topic, startingTime=650)) == payloads[3:]
    assert values(read(spark, broker, topic=topic, startingTime=901)) == []
    assert values(read(spark, broker, topic=topic, endingTime=901)) == payloads


def test_a_batch_query_starts_at_the_position_of_a_subscription(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "jobs", initial_position=pulsar.InitialPosition.Earliest)
    publish(client, topic, numbered(30), batching_enabled=False)
    receive_data(consumer, 7, acknowledge=True)
    consumer.close()
    for _ in range(2):
        assert values(read(spark, broker, topic=topic, predefinedSubscription="jobs")) == numbered(23, first=7)
    assert values(read(spark, broker, topic=topic, predefinedSubscription="none")) == numbered(30)
    assert list(broker.rest.get(f"{path_of(topic)}/stats")["subscriptions"]) == ["jobs"]


def test_a_stream_moves_its_subscription_when_its_batches_are_committed(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    frame = stream(spark, broker, topic, "jobs")
    publish(client, topic, numbered(50), batching_enabled=False)
    run_stream(frame, tmp_path)
    assert backlog(broker, topic) == {"jobs": 0}
    publish(client, topic, numbered(25, first=50), batching_enabled=False)
    assert backlog(broker, topic) == {"jobs": 25}
    run_stream(frame, tmp_path)
    assert backlog(broker, topic) == {"jobs": 0}
    assert values(spark.read.parquet(str(tmp_path / "rows"))) == numbered(75)
    publish(client, topic, numbered(5, first=75), batching_enabled=False)
    run_stream(frame, tmp_path / "another")
    assert values(spark.read.parquet(str(tmp_path / "another" / "rows"))) == numbered(5, first=75)


def test_a_new_subscription_of_a_stream_keeps_its_messages(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    publish(client, topic, numbered(30), batching_enabled=False)
    run_stream(stream(spark, broker, topic, "jobs", startingOffsets="latest"), tmp_path)
    publish(client, topic, numbered(5, first=30), batching_enabled=False)
    assert backlog(broker, topic) == {"jobs": 5}


def test_a_stream_refuses_a_subscription_with_another_consumer(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    consumer = client.subscribe(topic, "jobs", initial_position=pulsar.InitialPosition.Earliest)
    publish(client, topic, numbered(5), batching_enabled=False)
    with pytest.raises(PySparkException, match="must be the only consumer of its predefinedSubscription"):
        run_stream(stream(spark, broker, topic, "jobs"), tmp_path)
    consumer.close()


def stream(spark: SparkSession, broker: Broker, topic: str, subscription: str, **options: str) -> DataFrame:
    given = {"topic": topic, "predefinedSubscription": subscription, **options}
    return spark.readStream.format("magnetar").options(**addresses(broker), **given).load()


def backlog(broker: Broker, topic: str) -> dict[str, int]:
    """Return the unacknowledged entries of each subscription."""
    subscriptions = broker.rest.get(f"{path_of(topic)}/stats")["subscriptions"]
    return {name: stats["msgBacklog"] for name, stats in subscriptions.items()}


def path_of(topic: str) -> str:
    return topic.replace("://", "/")
