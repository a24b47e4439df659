"""The scans of an audit, joined in the Spark of this directory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from magnetar.base.position import Position
from magnetar.jobs.audit import frames
from magnetar.jobs.audit.comparing.windows import Log
from magnetar.jobs.audit.joining import join
from magnetar.jobs.audit.outcome import altered_in, checked_in
from magnetar.jobs.audit.tables import BUCKET, FINDINGS, Kind, Tally
from magnetar.jobs.scans import Plan, Records
from tests.unit.jobs.audit.logs import TOPIC, published, runs_of_logs

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from magnetar.jobs.scans import Scan

GONE = f"{TOPIC}-gone"
SELECTION = {"clusters": ["ewr", "jfk"], "topics": [TOPIC]}
COUNT = 3 * BUCKET
ALTERED = (100, BUCKET + 100, BUCKET + 200)


def runs(topic: str, first: int, count: int) -> pa.Table:
    """Return the runs of entries of ewr in both clusters."""
    logs = {name: published("ewr", 10, count, first) for name in ("ewr", "jfk")}
    found = runs_of_logs(logs, {"ewr": 10, "jfk": 700})
    return found.set_column(0, "topic", pa.repeat(topic, len(found)))


def write(session: SparkSession, scan: Scan, *tables: pa.Table) -> None:
    """Write what an audit writes, with findings about the content of some entries."""
    for number, table in enumerate(tables):
        scan.part(number).mkdir()
        pq.write_table(table, scan.part(number) / "part.parquet")
        (scan.part(number) / "_SUCCESS").touch()
    rows = [
        {"kind": Kind.ALTERED.value, "topic": TOPIC, "cluster": "jfk", "origin": "ewr", "origin_ledger": 10, "count": 1}
        | {"origin_entry": entry, "ledger": 700, "entry": entry}
        for entry in ALTERED
    ]
    found = session.createDataFrame(pa.Table.from_pylist(rows, FINDINGS), frames.FINDINGS_TYPE)
    found.write.parquet(str(altered_in(scan)))
    all_runs = session.createDataFrame(pa.concat_tables(tables), frames.RUNS_TYPE)
    differing = all_runs.selectExpr("*", f"'{Tally.DIFFERS.value}' AS kind")
    frames.signatures(frames.buckets_to_check(differing, [])).write.parquet(str(checked_in(scan)))
    scan.finish()


def test_a_joined_scan_has_what_a_cluster_stores(spark: SparkSession, tmp_path: Path) -> None:
    end = {"ewr": {TOPIC: Position(10, COUNT - 1), GONE: Position(10, 9)}, "jfk": {TOPIC: Position(700, COUNT - 1)}}
    trimmed = Position(10, BUCKET + 150)
    ewr = Log(exists=True, end=end["ewr"][TOPIC], head=Position(10, BUCKET + 1_000), trimmed={})
    jfk = Log(exists=True, end=end["jfk"][TOPIC], head=Position(700, 0), trimmed={"ewr": trimmed})
    logs = {TOPIC: {"ewr": ewr, "jfk": jfk}, GONE: {"ewr": Log(), "jfk": Log()}}
    with Records(tmp_path, "audit", SELECTION) as records:
        write(spark, records.begin(Plan(end)), runs(TOPIC, 0, 2 * BUCKET), runs(GONE, 0, 10))
        write(spark, records.begin(Plan(end)), runs(TOPIC, 2 * BUCKET, BUCKET))
        join(spark.read.parquet(*map(str, records.parts())), records, logs, threading.Event())
        (scan,) = records.scans
        assert records.ends == {"ewr": {TOPIC: Position(10, COUNT - 1)}, "jfk": {TOPIC: Position(700, COUNT - 1)}}
        kept = spark.read.parquet(*map(str, records.parts()))
        assert kept.schema == frames.RUNS_TYPE
        found = kept.select("topic", "cluster", "origin_entry", "count").orderBy("cluster", "origin_entry").collect()
        assert found == [(TOPIC, name, first, BUCKET) for name in ("ewr", "jfk") for first in (BUCKET, 2 * BUCKET)]
        altered = spark.read.parquet(str(altered_in(scan))).select("origin_entry").collect()
        assert altered == [(BUCKET + 200,)], "each finding once"
        assert spark.read.parquet(str(checked_in(scan))).select("topic", "bucket").orderBy("bucket").collect() == [
            (TOPIC, 1),
            (TOPIC, 2),
        ]
