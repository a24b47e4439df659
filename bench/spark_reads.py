"""Batch queries with the data source ``magnetar`` on one topic, next to the broker, of Magnetar and of Apache Pulsar.

The topic has messages of 100 B with one of 1,000 keys each, in batches of 1,000, as the official client writes them by
default. Spark runs with ``local[2]`` in this process. Each query runs as often as there are rounds, in the same
session, and the first run counts, too:

* *count*: all columns are built, and the rows are counted;
* *aggregate*: of the columns key and value, messages and bytes by key.

Rows per second of the best and of the median round, and the processor time of the broker.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.table import Table

from bench.frames import PRODUCER_ID, PRODUCER_NAME, payload
from bench.load import Publisher
from bench.options import parse
from bench.systems import TITLES, System, one_broker, require_apache
from magnetar.spark import MagnetarDataSource
from magnetar.wire.entries.batch import BatchedMessage, encode_batch
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.measure import describe_machine
from tests.kit.processes import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from tests.kit.server import Server

TOPIC = "persistent://public/default/reads"
SIZE = 100
PER_BATCH = 1_000
KEYS = 1_000
WINDOW = 64
"""Batches without a receipt."""

FULL, QUICK = 10_000_000, 1_000_000
ROUNDS = 3
TARGETS = {"count": 500_000, "aggregate": 250_000}
"""Rows per second of Magnetar's median."""


def frames(count: int) -> Iterator[bytes]:
    """Yield SENDs of batches with ``count`` messages in all."""
    content, now = payload(SIZE), time.time_ns() // 1_000_000
    messages = [
        BatchedMessage(pb.SingleMessageMetadata(partition_key=f"key-{index % KEYS}", sequence_id=index), content)
        for index in range(PER_BATCH)
    ]
    batch = encode_batch(messages)
    for first in range(0, count, PER_BATCH):
        metadata = pb.MessageMetadata(
            producer_name=PRODUCER_NAME, publish_time=now, sequence_id=first, num_messages_in_batch=PER_BATCH
        )
        send = pb.CommandSend(producer_id=PRODUCER_ID, sequence_id=first, num_messages=PER_BATCH)
        yield encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND, send=send), build_entry(metadata, batch))


def fill(server: Server, count: int) -> None:
    """Publish the messages of the topic; they are retained."""
    server.rest.post("namespaces/public/default/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    publisher = Publisher(server.service_url, TOPIC, WINDOW)
    publisher.publish(list(frames(count)))
    publisher.close()


def counted(frame: DataFrame) -> int:
    """Count the rows with all columns built."""
    return int(frame.count())


def aggregated(frame: DataFrame) -> int:
    """Return the messages of all keys."""
    by_key = frame.groupBy("__key").agg(f.count("*").alias("messages"), f.sum(f.length("value")).alias("bytes"))
    rows = by_key.collect()
    assert all(row["bytes"] == SIZE * row["messages"] for row in rows)
    return sum(row["messages"] for row in rows)


QUERIES: dict[str, tuple[str | None, Callable[[DataFrame], int]]] = {
    "count": (None, counted),
    "aggregate": ("__key binary, value binary", aggregated),
}
"""Schema (None: all columns) and work of each query."""


def measure(spark: SparkSession, system: System, directory: Path, count: int) -> dict[str, Any]:
    """Run all queries on one system; return figures by query."""
    found: dict[str, Any] = {}
    server = one_broker(system, directory)
    with server:
        fill(server, count)
        for name, (schema, work) in QUERIES.items():
            rates, cpu = [], []
            for _ in range(ROUNDS):
                reader = spark.read.format("magnetar").option("topic", TOPIC)
                reader = reader.option("service.url", server.service_url).option("admin.url", server.admin_url)
                before, began = cpu_seconds(server.pid), time.monotonic()
                rows = work((reader if schema is None else reader.schema(schema)).load())
                seconds = time.monotonic() - began
                assert rows == count, f"{rows} of {count} rows"
                rates.append(count / seconds)
                cpu.append((cpu_seconds(server.pid) - before) / count * 1e6)
            found[name] = {
                "rows_per_second": round(statistics.median(rates)),
                "best_rows_per_second": round(max(rates)),
                "broker_cpu_us_per_row": round(statistics.median(cpu), 3),
            }
    return found


@contextmanager
def session() -> Iterator[SparkSession]:
    """Start Spark with two threads and its default settings."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise workers use the Python of the search path
    builder = SparkSession.builder.master("local[2]").appName("bench").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.dataSource.register(MagnetarDataSource)
    try:
        yield spark
    finally:
        spark.stop()


def table(found: dict[System, dict[str, Any]], count: int) -> Table:
    """Return the figures as a table."""
    result = Table(
        "query", "system", "rows/s", "best", "broker CPU per row", "target", title=f"{count:,} messages of {SIZE} B"
    )
    for query in QUERIES:
        for system in System:
            figures = found[system][query]
            target = TARGETS[query]
            is_met = figures["rows_per_second"] >= target
            result.add_row(
                query,
                TITLES[system],
                f"{figures['rows_per_second']:,}",
                f"{figures['best_rows_per_second']:,}",
                f"{figures['broker_cpu_us_per_row']} us",
                f"{'met' if is_met else 'MISSED'}: at least {target:,}" if system is System.MAGNETAR else "",
            )
    return result


def main() -> int:
    """Measure and print."""
    options = parse("spark_reads", __doc__, quick="a tenth of the messages")
    require_apache()
    machine = describe_machine(options.directory)
    count = QUICK if options.quick else FULL
    with session() as spark:
        found = {system: measure(spark, system, options.directory / system, count) for system in System}
    shutil.rmtree(options.directory)
    if options.output == "json":
        sys.stdout.write(json.dumps({"machine": machine, "messages": count, **found}, indent=2) + "\n")
    else:
        Console(width=120).print(table(found, count))
        said = ", ".join(f"{key} {value}" for key, value in machine.items())
        Console(width=118).print(f"Spark: local[2], next to the broker. Machine: {said}.", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
