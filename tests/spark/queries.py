"""Queries with the data source ``magnetar``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from magnetar.spark import columns
from tests.kit.raw import RawConnection

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.kit.rest import Json
    from tests.kit.server import Server

    Option = str | int


def addresses(server: Server) -> dict[str, str]:
    """Return the options with the addresses of a cluster."""
    return {"service.url": server.service_url, "admin.url": server.admin_url}


def read(spark: SparkSession, server: Server, **options: Option) -> DataFrame:
    """Return the rows of a batch query."""
    return spark.read.format("magnetar").options(**addresses(server), **options).load()


def values(frame: DataFrame) -> list[bytes]:
    """Return the payloads in the order of the log."""
    found = frame.orderBy(columns.LEDGER_ID, columns.ENTRY_ID, columns.BATCH_INDEX).collect()
    return [bytes(row[columns.VALUE]) for row in found]


def run_stream(frame: DataFrame, directory: Path) -> None:
    """Append all rows that are available now to ``directory/rows``, from the checkpoint in ``directory``."""
    written = frame.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    written.option("path", str(directory / "rows")).trigger(availableNow=True).start().awaitTermination()


def stored(offset: Json) -> Json:
    """Return an offset as Spark stores it."""
    return json.loads(json.dumps(offset))


def publish_entries(server: Server, topic: str, entries: Iterable[bytes]) -> None:
    """Publish entries as they are."""
    with RawConnection.connected(server.service_url) as raw:
        raw.request("LOOKUP", "LOOKUP_RESPONSE", topic=topic)
        raw.create_producer(topic, producer_name="raw")
        for number, entry in enumerate(entries):
            raw.send("SEND", entry, producer_id=1, sequence_id=number)
            raw.expect("SEND_RECEIPT")
