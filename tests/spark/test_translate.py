"""The matching of entries and the states of subscriptions in ``magnetar pipeline translate``, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from magnetar.base.position import Position
from magnetar.jobs.acknowledgements import in_internal_stats, named, write_states
from magnetar.jobs.translate import frames
from magnetar.jobs.translate.outcome import translation_of
from tests.unit.jobs.translate.entries import SOURCE, TARGET, TOPIC, identities, source, target

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

OTHER = "persistent://public/default/other"
ONE_BY_ONE = {"spark.sql.execution.arrow.maxRecordsPerBatch": "3"}


@pytest.fixture
def entries(spark: SparkSession) -> DataFrame:
    """Two topics: the source has deleted 1 and 2 of the first one, and all entries of the other one."""
    first = identities(
        *source(3, 4, 5, 5, 6),
        *target(1, 2, 4, 3, 5, 6),
        *target(7, first=6, from_source=False),
        *target(8, first=7),
    )
    other = named_topic(OTHER, identities(*target(11, 12)))
    return spark.createDataFrame(pa.concat_tables([first, other]), frames.IDENTITIES_TYPE)


def named_topic(topic: str, rows: pa.Table) -> pa.Table:
    return rows.set_column(0, "topic", pa.repeat(topic, rows.num_rows).cast(pa.string()))


def state(mark: str, ranges: str, cluster: str) -> pa.Table:
    cursor = {"markDeletePosition": mark, "individuallyDeletedMessages": ranges}
    return named(in_internal_stats(cursor, [SOURCE, TARGET]), "s", cluster)


def test_states_are_translated(
    entries: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.setattr(frames, "_BUCKET", 5)
    found = frames.with_deleted(frames.matched(entries, 16)).cache()
    counts = {(row["topic"], row["match"]): row["count"] for row in frames.tallies(found)}
    assert counts == {
        (TOPIC, "mapped"): 3,
        (TOPIC, "ambiguous"): 1,
        (TOPIC, "deleted in source"): 2,
        (TOPIC, "missing in source"): 2,
        (OTHER, "deleted in source"): 2,
    }
    pairs = frames.mapping(found).filter(f"topic = '{TOPIC}'").collect()
    assert [(row["source_entry"], row["target_entry"]) for row in pairs] == [
        (None, 0),
        (None, 1),
        (None, 6),
        (None, 7),
        (0, 3),
        (1, 2),
        (2, 4),
        (3, 4),
        (4, 5),
    ]
    (ambiguous,) = frames.ambiguous(found, 10)
    assert (ambiguous["entry"], ambiguous["source_entries"]) == (4, [2, 3])
    files = {}
    for number, topic in enumerate((TOPIC, OTHER)):
        path = tmp_path / f"{number}.arrow"
        ahead = state(f"{TARGET}:2", "[]", "two")
        write_states(path, pa.concat_tables([state(f"{SOURCE}:0", f"[({SOURCE}:3..{SOURCE}:4]]", "one"), ahead]))
        files[topic] = str(path)
    spark.conf.set(*next(iter(ONE_BY_ONE.items())))
    try:
        verdicts = frames.translated(found, files, {TOPIC: TARGET}, ("one", "two"))
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    by_topic = {topic: verdicts.filter(pa.compute.equal(verdicts["topic"], topic)) for topic in files}
    translated = translation_of(TOPIC, "s", by_topic[TOPIC])
    assert (translated.mark_delete, translated.ranges) == (Position(TARGET, 1), [(TARGET, 3, 3), (TARGET, 5, 5)])
    assert (translated.undecided, translated.unacknowledged) == (0, 4)
    assert (translated.ahead, translated.first_ahead) == (1, Position(TARGET, 2))
    assert translation_of(OTHER, "s", by_topic[OTHER]).mark_delete == Position(TARGET, 1)


def test_an_entry_is_not_deleted_if_the_source_may_store_it_in_another_form(spark: SparkSession) -> None:
    """An old replicator, for example, could have dropped fields that it did not know."""
    rewritten = identities(*source(1, 2, 3), *target(11, 2, 3))
    trimmed = named_topic(OTHER, identities(*source(2, 3, 4), *target(11, 2, 3)))
    entries = spark.createDataFrame(pa.concat_tables([rewritten, trimmed]), frames.IDENTITIES_TYPE)
    rows = frames.with_deleted(frames.matched(entries, 12)).filter("entry = 0").collect()
    assert {row["topic"]: row["match"] for row in rows} == {TOPIC: "missing in source", OTHER: "deleted in source"}
