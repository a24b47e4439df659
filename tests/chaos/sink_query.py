"""A streaming query that copies a topic with the data source; the test kills its processes.

The rows pass a shuffle, so that a task that runs again gets its rows in another order.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from magnetar.spark import MagnetarDataSource

TASK_ATTEMPTS = 100
"""A killed worker must not end the query."""

BATCH_BYTES = 60_000
"""Bytes of a micro-batch, small enough for many of them."""


def main(service_url: str, admin_url: str, source: str, target: str, checkpoint: str) -> None:
    """Run the query until it is killed."""
    builder = SparkSession.builder.master(f"local[3,{TASK_ATTEMPTS}]").config("spark.sql.shuffle.partitions", 3)
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.dataSource.register(MagnetarDataSource)
    addresses = {"service.url": service_url, "admin.url": admin_url}
    read = spark.readStream.format("magnetar").schema("__key binary, value binary")
    rows = read.options(**addresses, topic=source, minPartitions=3, maxBytesPerTrigger=BATCH_BYTES).load()
    written = rows.repartition("__key").writeStream.format("magnetar").options(**addresses, topic=target)
    written.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
