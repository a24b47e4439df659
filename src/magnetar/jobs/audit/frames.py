"""The comparison of all topics on Spark, from the runs that were read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window as Rows
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.acknowledgements import stored_states
from magnetar.jobs.audit.comparing.acknowledgements import differences
from magnetar.jobs.audit.comparing.entries import altered, compare
from magnetar.jobs.audit.comparing.order import misplaced
from magnetar.jobs.audit.comparing.windows import Gap, Held, windows
from magnetar.jobs.audit.scanning import read_entries
from magnetar.jobs.audit.tables import BUCKET, CHUNK, ENTRIES, FINDINGS, RUNS, Kind, Tally
from magnetar.jobs.pieces import Piece
from magnetar.jobs.reading import of_topics
from magnetar.pipeline.work_files import spark_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, GroupedData

    from magnetar.jobs.audit.comparing.windows import Log, Window
    from magnetar.spark.options import Options

    Held_ = dict[tuple[str, str], dict[str, Held]]

_BUCKET_KEY = ("topic", "origin", "origin_ledger", "bucket")
_CHUNK_KEY = ("topic", "origin", "origin_ledger", "chunk")
_LOG_KEY = ("topic", "cluster", "origin")

RUNS_TYPE = from_arrow_schema(RUNS)
FINDINGS_TYPE = from_arrow_schema(FINDINGS)
_ENTRIES_TYPE = from_arrow_schema(ENTRIES)


def held_in(runs: DataFrame) -> Held_:
    """Return what each cluster has of each topic and origin: oldest and newest entry, and starts of links."""
    first, last = f.struct("origin_ledger", "origin_entry"), f.struct("origin_ledger", _last_entry())
    ends = runs.groupBy(*_LOG_KEY).agg(f.min(first).alias("oldest"), f.max(last).alias("newest")).collect()
    gaps: dict[tuple[str, str, str], list[Gap]] = {}
    by_origin = Rows.partitionBy(*_LOG_KEY).orderBy("origin_ledger", "origin_entry")
    starts = runs.join(runs.filter("link_start").select(*_LOG_KEY).distinct(), list(_LOG_KEY), "left_semi")
    for row in starts.withColumn("before", f.lag(last).over(by_origin)).filter("link_start").collect():
        before = Position(*row["before"]) if row["before"] is not None else EARLIEST
        gap = Gap(before, Position(row["origin_ledger"], row["origin_entry"]))
        gaps.setdefault((row["topic"], row["cluster"], row["origin"]), []).append(gap)
    found: Held_ = {}
    for row in ends:
        starts_here = tuple(gaps.get((row["topic"], row["cluster"], row["origin"]), ()))
        held = Held(Position(*row["oldest"]), Position(*row["newest"]), starts_here)
        found.setdefault((row["topic"], row["origin"]), {})[row["cluster"]] = held
    return found


def _last_entry() -> Column:
    return f.col("origin_entry") + f.col("count") - 1


def compared(runs: DataFrame, held: Held_, logs: Mapping[str, Mapping[str, Log]]) -> DataFrame:
    """Return findings and tallies of all chunks; ``logs`` are by topic and cluster."""
    expected = {key: windows(key[1], logs[key[0]], by_cluster) for key, by_cluster in held.items()}
    shared = runs.sparkSession.sparkContext.broadcast(expected)

    def compare_chunk(chunk: pa.Table) -> pa.Table:
        found: list[Window] = shared.value[chunk["topic"][0].as_py(), chunk["origin"][0].as_py()]
        return compare(chunk, found)

    return _chunks(runs).applyInArrow(compare_chunk, FINDINGS_TYPE)


def _chunks(runs: DataFrame) -> GroupedData:
    return runs.withColumn("chunk", f.floor(f.col("origin_entry") / CHUNK)).groupBy(*_CHUNK_KEY)


def reordered(runs: DataFrame) -> DataFrame:
    """Return the findings about the order of entries of other clusters."""
    place = f.struct("origin_ledger", "origin_entry")
    before = f.lag(f.struct("origin_ledger", _last_entry())).over(
        Rows.partitionBy(*_LOG_KEY).orderBy("ledger", "entry")
    )
    copied = runs.filter("cluster != origin")
    wrong = copied.withColumn("before", before).filter(f.col("before") >= place).select(*_LOG_KEY).distinct()
    return copied.join(wrong, list(_LOG_KEY), "left_semi").groupBy(*_LOG_KEY).applyInArrow(misplaced, FINDINGS_TYPE)


def buckets_to_check(outcome: DataFrame, checked: Sequence[Path]) -> DataFrame:
    """Return the runs of buckets that differ, but not those of buckets that were checked before with the same runs."""
    runs = outcome.filter(f.col("kind") == Tally.DIFFERS.value).withColumn("bucket", _bucket())
    if not checked:
        return runs
    known = runs.sparkSession.read.parquet(*map(spark_path, checked))
    same = signatures(runs).join(known, [*_BUCKET_KEY, "runs", "signature"], "left_anti")
    return runs.join(same.select(*_BUCKET_KEY), list(_BUCKET_KEY), "left_semi")


def signatures(runs: DataFrame) -> DataFrame:
    """Return a signature of the runs of each bucket."""
    signature = f.bit_xor(f.xxhash64("cluster", "origin_entry", "count", "ledger", "entry")).alias("signature")
    return runs.groupBy(*_BUCKET_KEY).agg(f.count("*").alias("runs"), signature)


def contents(runs: DataFrame, urls: Mapping[str, Options]) -> DataFrame:
    """Return the findings about the contents of the entries in ``runs`` of buckets, which are read again."""
    ordered = runs.select("cluster", "topic", "ledger", "entry", "count")
    ordered = ordered.repartitionByRange("cluster", "topic", "ledger", "entry")
    ordered = ordered.sortWithinPartitions("cluster", "topic", "ledger", "entry")
    entries = ordered.mapInArrow(partial(_read_again, urls), _ENTRIES_TYPE)
    return entries.withColumn("bucket", _bucket()).groupBy(*_BUCKET_KEY).applyInArrow(altered, FINDINGS_TYPE)


def _read_again(urls: Mapping[str, Options], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from read_entries(urls, joined(row for batch in batches for row in batch.to_pylist()))


def joined(rows: Iterable[Mapping[str, Any]]) -> Iterator[Piece]:
    """Yield pieces for sorted runs; runs that follow each other are one piece."""
    waiting: Piece | None = None
    for row in rows:
        start, end = Position(row["ledger"], row["entry"]), Position(row["ledger"], row["entry"] + row["count"])
        if waiting is not None and (waiting.cluster, waiting.topic, waiting.end) == (
            row["cluster"],
            row["topic"],
            start,
        ):
            waiting = waiting._replace(end=end, entries=waiting.entries + row["count"])
            continue
        if waiting is not None:
            yield waiting
        waiting = Piece(row["cluster"], row["topic"], start, end, row["count"], 0)
    if waiting is not None:
        yield waiting


def acknowledgements(runs: DataFrame, exported: Mapping[str, str]) -> DataFrame:
    """Return the differences between acknowledgement states; ``exported`` are the files with STATES by topic."""
    shared = runs.sparkSession.sparkContext.broadcast(dict(exported))

    def compare_chunk(chunk: pa.Table) -> pa.Table:
        return differences(chunk, stored_states(shared.value[chunk["topic"][0].as_py()]))

    return _chunks(of_topics(runs, exported)).applyInArrow(compare_chunk, FINDINGS_TYPE)


def tallies(outcome: DataFrame) -> list[dict[str, Any]]:
    """Return rows of kind, topic, cluster and the sum of counts."""
    sums = outcome.groupBy("kind", "topic", "cluster").agg(f.sum("count").alias("count"))
    return [row.asDict() for row in sums.collect()]


def findings(outcome: DataFrame) -> DataFrame:
    """Return the findings without tallies."""
    return outcome.filter(f.col("kind").isin([kind.value for kind in Kind]))


def of_buckets(found: DataFrame, runs: DataFrame) -> DataFrame:
    """Return the findings in buckets of which there are ``runs``."""
    keys = runs.withColumn("bucket", _bucket()).select(*_BUCKET_KEY).distinct()
    return found.withColumn("bucket", _bucket()).join(keys, list(_BUCKET_KEY), "left_semi").drop("bucket")


def stored(runs: DataFrame, trimmed: Mapping[tuple[str, str], Position]) -> DataFrame:
    """Return the runs that are not before a position by topic and origin, up to which no cluster stores entries."""
    return _after(trimmed, runs, _last_entry())


def stored_findings(found: DataFrame, trimmed: Mapping[tuple[str, str], Position]) -> DataFrame:
    """Return findings about single entries like ``stored``."""
    return _after(trimmed, found, f.col("origin_entry"))


def stored_signatures(checked: DataFrame, trimmed: Mapping[tuple[str, str], Position]) -> DataFrame:
    """Return signatures of buckets like ``stored``."""
    return _after(trimmed, checked, (f.col("bucket") + 1) * BUCKET - 1)


def _after(trimmed: Mapping[tuple[str, str], Position], table: DataFrame, last: Column) -> DataFrame:
    rows = [(*key, *position) for key, position in trimmed.items()]
    bounds = table.sparkSession.createDataFrame(rows, "topic string, origin string, through_ledger long, through long")
    ledger, through = f.col("origin_ledger"), f.col("through_ledger")
    is_after = (ledger > through) | ((ledger == through) & (last > f.col("through")))
    return table.join(f.broadcast(bounds), ["topic", "origin"]).filter(is_after).select(*table.columns)


def _bucket() -> Column:
    return f.floor(f.col("origin_entry") / BUCKET).cast("bigint")
