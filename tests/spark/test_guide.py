"""The examples of the guide, run one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulsar
import pytest
from pulsar.schema import Integer, JsonSchema, Record, String

from tests.guides.page import guide
from tests.kit.messages import receive_data
from tests.spark.queries import run_stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.kit.broker import Broker

pytestmark = pytest.mark.timeout(240)

TOPIC = "persistent://public/default/flights"


class Flight(Record):  # type: ignore[misc]
    """A value of the topic."""

    carrier = String()
    minutes_late = Integer()


def test_the_examples_of_the_guide_work(
    spark: SparkSession, broker: Broker, client: pulsar.Client, tmp_path: Path
) -> None:
    producer = client.create_producer(TOPIC, schema=JsonSchema(Flight))
    late = [("UA", 20), ("UA", 5), ("DL", 40), ("UA", 16)]
    for carrier, minutes in late:
        producer.send(Flight(carrier=carrier, minutes_late=minutes), partition_key=carrier)
    upper = f"{TOPIC}-upper"
    client.create_producer(upper).close()
    broker.rest.post(f"{upper.replace('://', '/')}/deduplicationEnabled", True)
    blocks = [block for block in guide("spark").blocks if block.language == "python"]
    assert blocks
    names: dict[str, Any] = {"spark": spark}
    for block in blocks:
        text = block.text.replace("pulsar://127.0.0.1:6650", broker.service_url)
        text = text.replace("http://127.0.0.1:8080", broker.admin_url).replace("/data/", f"{tmp_path}/")
        exec(compile(text, f"guide: {block.section}", "exec"), names)
    assert names["flights"].count() == names["last_hour"].count() == len(late)
    assert dict(names["by_key"].collect()) == {b"UA": 3, b"DL": 1}
    assert dict(names["late"].collect()) == {"UA": 2, "DL": 1}
    (stored,) = names["stored"].collect()
    assert stored["messages"] == len(late)
    assert stored["bytes"] > 0
    run_stream(names["followed"], tmp_path)
    assert spark.read.parquet(str(tmp_path / "rows")).count() == len(late)
    names["query"].processAllAvailable()
    names["query"].stop()
    consumer = client.subscribe(upper, "test", initial_position=pulsar.InitialPosition.Earliest)
    received = receive_data(consumer, len(late))
    assert sum(b'"CARRIER": "UA"' in payload or b'"CARRIER":"UA"' in payload for payload in received) == 3
