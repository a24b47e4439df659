"""The audit as a whole: what it asks the clusters, and the order of its Spark jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError, DataLossError
from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.audit import frames
from magnetar.jobs.audit.comparing.windows import Log
from magnetar.jobs.audit.outcome import Conclusion, Step
from magnetar.jobs.audit.records import Plan, Records
from magnetar.jobs.audit.scanning import pieces, tasks
from magnetar.jobs.audit.survey import Survey
from magnetar.jobs.session import batch_session, stoppable
from magnetar.pipeline.work_files import WorkDirectory
from magnetar.spark.options import Options

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from magnetar.jobs.audit.outcome import Tell
    from magnetar.jobs.audit.records import Scan
    from magnetar.jobs.audit.report import Report
    from magnetar.jobs.audit.settings import Settings
    from magnetar.jobs.audit.survey import Bounds

_TASKS_PER_PART = 16
"""Tasks whose runs are complete together; an interrupted audit reads the entries of at most so many tasks again."""


def audit(settings: Settings, tell: Tell, stop: threading.Event) -> Report:
    """Compare the clusters. Raises MagnetarError, InterruptedJobError among them when ``stop`` is set."""
    if settings.findings is not None and settings.findings.exists():
        message = f"--findings: {settings.findings} exists\nhint: name another directory"
        raise ConfigurationError(message)
    names = [cluster.name for cluster in settings.clusters]
    urls = {
        cluster.name: Options(service_url=cluster.broker_url, admin_url=cluster.admin_url)
        for cluster in settings.clusters
    }
    with Survey(settings.clusters) as survey, WorkDirectory(settings.work_dir) as work:
        chosen = survey.topics(settings.topics, settings.namespaces)
        selection = {"topics": settings.topics, "namespaces": settings.namespaces}
        records = Records(settings.state or work.path / "state", names, selection)
        scan = records.unfinished or records.begin(_plan(survey, chosen, records))
        with batch_session("audit", settings.master, work.path, settings.spark_log) as session:
            _read(session, scan, urls, tell, stop)
            topics = sorted({topic for by_topic in records.ends.values() for topic in by_topic})
            logs = _logs(survey.bounds(topics), scan.plan, records)
            conclusion = Conclusion(session, records, logs, urls, work.path)
            report = conclusion.report(survey, settings, tell, stop)
        scan.finish()
    return report


def _plan(survey: Survey, topics: list[str], records: Records) -> Plan:
    """Return what a new run reads: all entries after those of earlier runs."""
    delivered = survey.delivered(topics)  # before the ends, so that delivered entries are below them
    bounds, ends = survey.bounds(topics), records.ends
    plan = Plan()
    wanted = []
    for cluster, by_topic in bounds.items():
        plan.ends[cluster], plan.delivered[cluster] = {}, {}
        for topic, found in by_topic.items():
            before = ends.get(cluster, {}).get(topic, EARLIEST)
            plan.ends[cluster][topic] = before if found is None else found.end
            plan.delivered[cluster][topic] = delivered[cluster][topic] or {}
            if found is not None:
                _check_growth(cluster, topic, before, found.end)
                wanted += pieces(cluster, topic, Position(before.ledger_id, before.entry_id + 1), found.ledgers)
    plan.tasks = tasks(wanted)
    return plan


def _check_growth(cluster: str, topic: str, before: Position, end: Position) -> None:
    if end < before:
        message = (
            f"{topic} in {cluster} ends at {end}, but an earlier audit read it up to {before}: data was lost"
            "\nhint: name a new directory with --state to compare from the beginning"
        )
        raise DataLossError(message)


def _read(session: SparkSession, scan: Scan, urls: Mapping[str, Options], tell: Tell, stop: threading.Event) -> None:
    """Read the entries of the plan that were not read yet."""
    planned = scan.plan.tasks
    total = sum(piece.entries for task in planned for piece in task)
    done = 0
    for number, first in enumerate(range(0, len(planned), _TASKS_PER_PART)):
        part = planned[first : first + _TASKS_PER_PART]
        entries = sum(piece.entries for task in part for piece in task)
        if not scan.has(number):
            with stoppable(session, stop, partial(_told, tell, done, total, entries / len(part))):
                frames.runs_read(session, part, urls).write.mode("overwrite").parquet(str(scan.part(number)))
        done += entries
        tell(Step.READING, done, total)


def _told(tell: Tell, before: int, total: int, per_task: float, completed: int) -> None:
    tell(Step.READING, min(total, before + int(per_task * completed)), total)


def _logs(bounds: Mapping[str, Mapping[str, Bounds | None]], plan: Plan, records: Records) -> dict[str, dict[str, Log]]:
    """Return the logs by topic and cluster; ``bounds`` are those after the entries were read."""
    found: dict[str, dict[str, Log]] = {}
    ends = records.ends
    for cluster, by_topic in bounds.items():
        for topic, bound in by_topic.items():
            end = ends.get(cluster, {}).get(topic, EARLIEST)
            delivered = plan.delivered.get(cluster, {}).get(topic, {})
            found.setdefault(topic, {})[cluster] = (
                Log(end=end, head=Position(end.ledger_id + 1, 0), trimmed={}, delivered=delivered)
                if bound is None
                else Log(exists=True, end=end, head=bound.head, trimmed=bound.trimmed, delivered=delivered)
            )
    return found
