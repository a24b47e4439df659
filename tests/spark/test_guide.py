"""The examples of the guide, run one after the other."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

import pulsar
import pytest
from pulsar.schema import Integer, JsonSchema, Record, String

from magnetar.cli.main import ExitCode, main
from magnetar.demo.flights import data_file, read_flights
from magnetar.demo.plan import NAMESPACE, TENANT
from magnetar.demo.plan import TOPIC as DEPARTURES
from tests.guides.page import guide
from tests.kit.messages import nothing_comes, receive, receive_data, send_all
from tests.spark.queries import run_stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.guides.page import Block
    from tests.kit.broker import Broker

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

TOPIC = "persistent://public/default/flights"
HOUR_MS = 3_600_000


class Flight(Record):  # type: ignore[misc]
    """A value of the topic."""

    carrier = String()
    minutes_late = Integer()


class Guide:
    """The guide, with the addresses of a broker and a directory of its own."""

    def __init__(self, spark: SparkSession, broker: Broker, directory: Path) -> None:
        self.names: dict[str, Any] = {"spark": spark}
        self._spark = spark
        self._broker = broker
        self._replaced = {
            "pulsar://127.0.0.1:6650": broker.service_url,
            "http://127.0.0.1:8080": broker.admin_url,
            "/data/": f"{directory}/",
        }

    def run(self, block: Block) -> None:
        """Run a block of Python, or the commands of ``magnetar`` in a block. Streams process what is there, and end."""
        text = block.text
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        if block.language == "python":
            exec(compile(text, f"guide: {block.section}", "exec"), self.names)
            for query in self._spark.streams.active:
                query.processAllAvailable()
                query.stop()
        for command in block.commands() if block.language == "console" else ():
            program, *arguments = shlex.split(command.text)
            if program == "magnetar":
                assert main(["--admin-url", self._broker.admin_url, *arguments]) is ExitCode.DONE


def publish_departures(broker: Broker, client: pulsar.Client, count: int) -> list[int]:
    """Publish flights as the demo does; return their number by hour."""
    broker.rest.ensure(f"tenants/{TENANT}", {"adminRoles": [], "allowedClusters": [broker.cluster]})
    broker.rest.ensure(f"namespaces/{NAMESPACE}", {})
    retention = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    broker.rest.post(f"namespaces/{NAMESPACE}/retention", retention)
    flights = list(read_flights(data_file(), count))
    producer = client.create_producer(DEPARTURES)
    send_all(producer, [(flight.row, {"event_timestamp": flight.scheduled_ms}) for flight in flights])
    producer.close()
    by_hour = Counter(flight.scheduled_ms // HOUR_MS for flight in flights)
    return [number for _, number in sorted(by_hour.items())]


def test_the_examples_of_the_guide_work(
    spark: SparkSession, broker: Broker, client: pulsar.Client, tmp_path: Path
) -> None:
    by_hour = publish_departures(broker, client, 300)
    producer = client.create_producer(TOPIC, schema=JsonSchema(Flight))
    late = [("UA", 20), ("UA", 5), ("DL", 40), ("UA", 16)]
    for carrier, minutes in late:
        producer.send(Flight(carrier=carrier, minutes_late=minutes), partition_key=carrier)
    upper = f"{TOPIC}-upper"
    client.create_producer(upper).close()
    broker.rest.post(f"{upper.replace('://', '/')}/deduplicationEnabled", True)
    running, page = Guide(spark, broker, tmp_path), guide("spark")
    for block in page.blocks:
        running.run(block)
    names = running.names
    assert [row["count"] for row in names["per_hour"].collect()] == by_hour
    assert names["flights"].count() == names["last_hour"].count() == len(late)
    assert dict(names["by_key"].collect()) == {b"UA": 3, b"DL": 1}
    assert dict(names["late"].collect()) == {"UA": 2, "DL": 1}
    (stored,) = names["stored"].collect()
    assert stored["messages"] == len(late)
    assert stored["bytes"] > 0
    run_stream(names["followed"], tmp_path)
    assert spark.read.parquet(str(tmp_path / "rows")).count() == len(late)
    consumer = client.subscribe(upper, "test", initial_position=pulsar.InitialPosition.Earliest)
    received = receive_data(consumer, len(late))
    assert sum(b'"CARRIER": "UA"' in payload or b'"CARRIER":"UA"' in payload for payload in received) == 3
    # The stream with the names of airlines starts again.
    producer.send(Flight(carrier="XX", minutes_late=7), partition_key="XX")
    running.run(page.section("Enrich a stream and write it back exactly once")[-1])
    consumer = client.subscribe(f"{TOPIC}-named", "test", initial_position=pulsar.InitialPosition.Earliest)
    messages = receive(consumer, len(late) + 1)
    found = [(message.partition_key(), json.loads(message.data())) for message in messages]
    airlines = {"UA": "United Air Lines", "DL": "Delta Air Lines"}
    expected = [
        (carrier, {"carrier": carrier, "airline": airlines[carrier], "minutes_late": minutes})
        for carrier, minutes in late
    ]
    assert found == [*expected, ("XX", {"carrier": "XX", "minutes_late": 7})]
    assert nothing_comes(consumer)
