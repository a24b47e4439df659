"""Queries with the data source on a Spark cluster, as a user writes them; the test kills their processes."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from magnetar.spark import MagnetarDataSource

BATCH_BYTES = 60_000
"""Bytes of a micro-batch, small enough for many of them."""


def main(verb: str, service_url: str, admin_url: str, source: str, target: str, checkpoint: str, *conf: str) -> None:
    """``count``: print the number of messages of ``source``. ``copy``: copy it until the process is killed.

    The rows of the copy pass a shuffle, so that a task that runs again gets its rows in another order.
    """
    builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", 3)
    for text in conf:
        key, _, value = text.partition("=")
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(MagnetarDataSource)
    addresses = {"service.url": service_url, "admin.url": admin_url}
    if verb == "count":
        rows = spark.read.format("magnetar").options(**addresses, topic=source, minPartitions=2).load()
        found = rows.selectExpr("count(*)", "count(DISTINCT value)").collect()[0]
        sys.stdout.write(json.dumps(list(found)) + "\n")
        return
    read = spark.readStream.format("magnetar").schema("__key binary, value binary")
    stream = read.options(**addresses, topic=source, minPartitions=3, maxBytesPerTrigger=BATCH_BYTES).load()
    written = stream.repartition("__key").writeStream.format("magnetar").options(**addresses, topic=target)
    written.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
