"""The scans of an audit as one, without topics that no cluster has and entries that no cluster stores any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.jobs.audit import frames
from magnetar.jobs.audit.comparing.windows import trimmed_everywhere
from magnetar.jobs.audit.outcome import altered_in, checked_in
from magnetar.jobs.session import stoppable
from magnetar.pipeline.work_files import spark_path

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from magnetar.jobs.audit.comparing.windows import Log
    from magnetar.jobs.scans import Ends, Records, Scan

    Logs = Mapping[str, Mapping[str, Log]]


def join(runs: DataFrame, records: Records, logs: Logs, stop: threading.Event) -> None:
    """Replace the scans, which have these ``runs``, by one; ``logs`` are by topic and cluster. Raises as ``audit``."""
    session = runs.sparkSession
    read = session.read
    checked = [spark_path(place) for scan in records.scans if (place := checked_in(scan)).exists()]
    altered = [spark_path(place) for scan in records.scans if (place := altered_in(scan)).exists()]

    def write(target: Scan) -> None:
        with stoppable(session, stop):
            origins = runs.select("topic", "origin").distinct().collect()
            trimmed = {(topic, origin): trimmed_everywhere(origin, logs[topic]) for topic, origin in origins}
            frames.stored(runs, trimmed).write.parquet(spark_path(target.part(0)))
            found = read.parquet(*checked)
            frames.stored_signatures(found, trimmed).dropDuplicates().write.parquet(spark_path(checked_in(target)))
            found = read.schema(frames.FINDINGS_TYPE).parquet(*altered)
            frames.stored_findings(found, trimmed).dropDuplicates().write.parquet(spark_path(altered_in(target)))

    records.join(kept_ends(records.ends, logs), write)


def kept_ends(ends: Ends, logs: Logs) -> Ends:
    """Return the ends of topics that a cluster has."""
    return {
        cluster: {topic: end for topic, end in by_topic.items() if any(log.exists for log in logs[topic].values())}
        for cluster, by_topic in ends.items()
    }
