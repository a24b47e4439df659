"""The matching and the states of all topics on Spark."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from magnetar.jobs.acknowledgements import stored_states
from magnetar.jobs.reading import of_topics
from magnetar.jobs.translate.matching import matches
from magnetar.jobs.translate.states import verdicts
from magnetar.jobs.translate.tables import IDENTITIES, MATCHES, VERDICTS, Match

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

IDENTITIES_TYPE = from_arrow_schema(IDENTITIES)
MATCHES_TYPE = from_arrow_schema(MATCHES)
_VERDICTS_TYPE = from_arrow_schema(VERDICTS)

_BUCKET = 200_000
"""Entries that are matched together, about, which bounds the memory."""

_PLACE = ("topic", "ledger", "entry")


def matched(entries: DataFrame, count: int) -> DataFrame:
    """Return rows of MATCHES for ``count`` rows of IDENTITIES."""
    buckets = max(1, -(-count // _BUCKET))
    return entries.groupBy(f.pmod("low", f.lit(buckets)).alias("bucket")).applyInArrow(matches, MATCHES_TYPE)


def with_deleted(found: DataFrame) -> DataFrame:
    """Return rows of MATCHES with the entries that were deleted in the source.

    A source replicates its entries in order, and deletes the oldest ones, after all of its subscriptions have
    acknowledged them. So the target's entries from the source before the first one that the source stores were
    deleted, provided that the source stores no older one without an equal in the target: it could be the same message.
    """
    place = f.struct("ledger", "entry")
    source = f.struct(f.get("source_ledgers", f.lit(0)), f.get("source_entries", f.lit(0)))
    kind = f.col("match")
    is_matched = f.col("from_source") & kind.isin(Match.MAPPED.value, Match.AMBIGUOUS.value)
    is_unmatched = f.col("from_source") & (kind == Match.MISSING_IN_TARGET.value)
    of_topic = found.groupBy("topic").agg(
        f.bool_or(kind != Match.MISSING_IN_SOURCE.value).alias("has_stored"),
        f.min(f.when(is_matched, place)).alias("first"),
        f.min(f.when(is_matched & (f.size("source_ledgers") > 0), source)).alias("matched"),
        f.min(f.when(is_unmatched, source)).alias("unmatched"),
    )
    is_oldest = f.col("unmatched").isNull() | (f.col("matched") < f.col("unmatched"))
    is_before = ~f.col("has_stored") | ((place < f.col("first")) & is_oldest)
    is_deleted = (kind == Match.MISSING_IN_SOURCE.value) & f.col("from_source") & is_before
    match = f.when(is_deleted, Match.DELETED_IN_SOURCE.value).otherwise(kind)
    return found.join(f.broadcast(of_topic), "topic").withColumn("match", match).select(*MATCHES.names)


def mapping(found: DataFrame) -> DataFrame:
    """Return the positions in both clusters of each entry; for an ambiguous one, those of each candidate."""
    sources = f.explode_outer(f.arrays_zip("source_ledgers", "source_entries")).alias("source")
    pairs = found.select("*", sources).select(
        "topic",
        f.col("source.source_ledgers").alias("source_ledger"),
        f.col("source.source_entries").alias("source_entry"),
        f.col("ledger").alias("target_ledger"),
        f.col("entry").alias("target_entry"),
        "match",
        *MATCHES.names[-4:],
    )
    return pairs.orderBy("topic", "source_ledger", "source_entry", "target_ledger", "target_entry")


def tallies(found: DataFrame) -> list[dict[str, Any]]:
    """Return rows of topic, match and count."""
    return [row.asDict() for row in found.groupBy("topic", "match").count().collect()]


def ambiguous(found: DataFrame, count: int) -> list[dict[str, Any]]:
    """Return the first ``count`` ambiguous entries of the target."""
    wanted = found.filter(f.col("match") == Match.AMBIGUOUS.value).orderBy(*_PLACE).limit(count)
    rows: list[dict[str, Any]] = wanted.toArrow().to_pylist()
    return rows


def translated(
    found: DataFrame, exported: Mapping[str, str], heads: Mapping[str, int], names: tuple[str, str]
) -> pa.Table:
    """Return rows of VERDICTS.

    ``exported`` are the files with STATES by topic, ``heads`` the oldest ledgers of the target, and ``names`` those of
    the source and the target.
    """
    shared = found.sparkSession.sparkContext.broadcast((dict(exported), dict(heads)))

    def evaluate(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files, oldest = shared.value
        for batch in batches:
            for rows in _by_topic(pa.Table.from_batches([batch])):
                topic = rows["topic"][0].as_py()
                yield from _of_topic(rows, files[topic], oldest.get(topic, 0), names)

    ordered = of_topics(found, exported).repartitionByRange(*_PLACE).sortWithinPartitions(*_PLACE)
    return ordered.mapInArrow(evaluate, _VERDICTS_TYPE).toArrow().cast(VERDICTS)


def _by_topic(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of each topic; they are sorted by topic."""
    topics = np.array(rows["topic"].to_pylist(), object)
    cuts = np.flatnonzero(topics[1:] != topics[:-1]) + 1
    for start, stop in pairwise([0, *cuts.tolist(), len(topics)] if len(topics) else []):
        yield rows.slice(start, stop - start)


def _of_topic(rows: pa.Table, path: str, oldest: int, names: tuple[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield the verdicts about rows of one topic; entries that the target has deleted since then are left out."""
    is_kept = rows["ledger"].fill_null(oldest).to_numpy() >= oldest
    source, target = names
    for subscription, states in stored_states(path).items():
        if source in states:
            found = verdicts(rows.filter(is_kept), subscription, states[source], states.get(target))
            yield from found.to_batches()
