"""The comparison of all runs that were read, and the report of it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f

from magnetar.jobs.acknowledgements import write_states
from magnetar.jobs.audit import frames
from magnetar.jobs.audit.comparing.acknowledgements import lasting
from magnetar.jobs.audit.exports import comparable, export, missing_rows
from magnetar.jobs.audit.report import FINDINGS_SHOWN_MAX, NotCompared, Report, counts_of
from magnetar.jobs.audit.tables import FINDINGS, Tally
from magnetar.jobs.reading import all_read
from magnetar.jobs.session import InterruptedJobError, stoppable
from magnetar.pipeline.work_files import spark_path

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from magnetar.jobs.audit.comparing.windows import Log
    from magnetar.jobs.audit.exports import Comparable
    from magnetar.jobs.audit.settings import Settings
    from magnetar.jobs.scans import Records, Scan
    from magnetar.jobs.survey import Survey
    from magnetar.spark.options import Options

    Tell = Callable[[str, int, int], None]
    """Called with a step of the work, and how much of it is done."""


class Step(StrEnum):
    """Steps of an audit, as its progress names them."""

    READING = "entries read"
    COMPARING = "entries compared"
    ACKNOWLEDGEMENTS = "acknowledgements compared"


STEPS = tuple(step.value for step in Step)


class Conclusion:
    """The comparison of all runs in the records of an audit."""

    def __init__(
        self,
        session: SparkSession,
        records: Records,
        logs: Mapping[str, Mapping[str, Log]],
        urls: Mapping[str, Options],
        work: Path,
    ) -> None:
        """Compare the ``logs``, by topic and cluster; temporary tables are written to ``work``."""
        self._session = session
        self._scan = records.scans[-1]
        self._earlier = records.scans[:-1]
        self._logs = logs
        self._urls = urls
        self._work = work
        self.runs = all_read(session, records, frames.RUNS_TYPE)
        """All runs."""

    def report(self, survey: Survey, settings: Settings, tell: Tell, stop: threading.Event) -> Report:
        """Compare entries and acknowledgements; raises as ``audit``."""
        tell(Step.COMPARING, 0, 2)
        with stoppable(self._session, stop):
            outcome = self._compared()
        tell(Step.COMPARING, 1, 2)
        with stoppable(self._session, stop):
            altered = self._contents(outcome)
        tell(Step.COMPARING, 2, 2)
        found, compared, excluded = self._acknowledgements(survey, settings.settle_seconds, tell, stop)
        with stoppable(self._session, stop):
            all_findings = (
                frames.findings(outcome)
                .unionByName(altered)
                .unionByName(self._table(found))
                .orderBy("topic", "kind", "subscription", "cluster", "origin", "origin_ledger", "origin_entry")
            )
            place = settings.findings or self._work / "findings"
            all_findings.coalesce(1).write.parquet(spark_path(place))
            return self._report(outcome, place, compared, excluded)

    def _compared(self) -> DataFrame:
        """Compare the runs; return findings and tallies."""
        held = frames.held_in(self.runs)
        outcome = frames.compared(self.runs, held, self._logs).unionByName(frames.reordered(self.runs))
        return self._stored("outcome", outcome)

    def _contents(self, outcome: DataFrame) -> DataFrame:
        """Read the entries of buckets that differ; return the findings about their contents.

        Buckets that an earlier run has checked with the same runs keep its findings.
        """
        checked = [place for scan in self._earlier if (place := checked_in(scan)).exists()]
        differing = outcome.filter(f.col("kind") == Tally.DIFFERS.value)
        wanted = self._stored("differing", frames.buckets_to_check(outcome, checked))
        altered, signatures = altered_in(self._scan), checked_in(self._scan)
        frames.contents(wanted, self._urls).write.mode("overwrite").parquet(spark_path(altered))
        frames.signatures(wanted).write.mode("overwrite").parquet(spark_path(signatures))
        places = [place for scan in self._earlier if (place := altered_in(scan)).exists()]
        known = self._session.read.schema(frames.FINDINGS_TYPE).parquet(*map(spark_path, [*places, altered]))
        return frames.of_buckets(known, differing).dropDuplicates()

    def _acknowledgements(
        self, survey: Survey, settle_seconds: float, tell: Tell, stop: threading.Event
    ) -> tuple[pa.Table, int, list[NotCompared]]:
        """Return the findings, the number of compared subscriptions, and those that are not compared."""
        wanted = sorted(
            topic for topic, by_cluster in self._logs.items() if sum(log.exists for log in by_cluster.values()) > 1
        )
        found = _subscriptions(survey, wanted)
        tell(Step.ACKNOWLEDGEMENTS, 0, 2)
        first = self._differences(survey, found, stop)
        tell(Step.ACKNOWLEDGEMENTS, 1, 2)
        if first.num_rows:
            # What was on its way has arrived at the second look.
            if stop.wait(settle_seconds):
                raise InterruptedJobError
            again = set(first["topic"].to_pylist())
            second = self._differences(survey, _subscriptions(survey, sorted(again)), stop)
            first = lasting(first, second)
        tell(Step.ACKNOWLEDGEMENTS, 2, 2)
        compared = sum(len(each.clusters.keys() | each.missing.keys()) for each in found.values())
        excluded = [
            NotCompared(topic=topic, subscription=name, reason=reason)
            for topic, each in found.items()
            for name, reason in each.excluded.items()
        ]
        return first, compared, excluded

    def _differences(self, survey: Survey, found: Mapping[str, Comparable], stop: threading.Event) -> pa.Table:
        """Export the states of subscriptions, and return the findings about them."""
        directory = self._work / "states"
        directory.mkdir(exist_ok=True)
        exported: dict[str, str] = {}
        rows: list[dict[str, Any]] = []
        for number, (topic, each) in enumerate(found.items()):
            exists = [cluster for cluster, log in self._logs[topic].items() if log.exists]
            rows += missing_rows(topic, each, exists)
            if each.clusters:
                path = directory / f"{number}-{len(list(directory.iterdir()))}.arrow"
                write_states(path, export(survey, topic, each))
                exported[topic] = str(path)
            if stop.is_set():
                raise InterruptedJobError
        tables = [pa.Table.from_pylist(rows, FINDINGS)]
        if exported:
            with stoppable(self._session, stop):
                tables.append(frames.acknowledgements(self.runs, exported).toArrow().cast(FINDINGS))
        return pa.concat_tables(tables)

    def _report(self, outcome: DataFrame, place: Path, compared: int, excluded: Sequence[NotCompared]) -> Report:
        found = self._session.read.schema(frames.FINDINGS_TYPE).parquet(spark_path(place))
        by_kind = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
        by_topic = found.groupBy("topic", "cluster").agg(f.count("*").alias("findings"))
        clusters = sorted(self._urls)
        return Report(
            clusters=clusters,
            counts=counts_of(sorted(self._logs), clusters, frames.tallies(outcome), by_topic.toArrow().to_pylist()),
            entries_read=self._scan.plan.entries,
            subscriptions_compared=compared,
            subscriptions_not_compared=excluded,
            by_kind=dict(sorted(by_kind.items())),
            findings=found.limit(FINDINGS_SHOWN_MAX).toArrow().to_pylist(),
        )

    def _stored(self, name: str, frame: DataFrame) -> DataFrame:
        """Compute a table once."""
        path = spark_path(self._work / name)
        frame.write.parquet(path)
        return self._session.read.schema(frame.schema).parquet(path)

    def _table(self, table: pa.Table) -> DataFrame:
        """Return a table of this process."""
        if not table.num_rows:
            return self._session.createDataFrame([], frames.FINDINGS_TYPE)
        return self._session.createDataFrame(table, frames.FINDINGS_TYPE)


def checked_in(scan: Scan) -> Path:
    """Return the place of the buckets whose entries were compared one by one."""
    return scan.directory / "checked"


def altered_in(scan: Scan) -> Path:
    """Return the place of the findings about their contents."""
    return scan.directory / "altered"


def _subscriptions(survey: Survey, topics: Sequence[str]) -> dict[str, Comparable]:
    """Return the subscriptions of topics."""
    by_cluster = survey.subscriptions(topics)
    found = {}
    for topic in topics:
        listed = {cluster: each[topic] for cluster, each in by_cluster.items()}
        found[topic] = comparable({cluster: each for cluster, each in listed.items() if each is not None})
    return found
