"""The audit as a whole: what it asks the clusters, and the order of its Spark jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.audit import frames
from magnetar.jobs.audit.comparing.windows import Gap, Log
from magnetar.jobs.audit.joining import join
from magnetar.jobs.audit.outcome import Conclusion, Step
from magnetar.jobs.audit.scanning import read_runs
from magnetar.jobs.reading import plan_of, read_parts, urls_of, written_for
from magnetar.jobs.scans import Records
from magnetar.jobs.session import Needs, batch_session
from magnetar.jobs.survey import Survey
from magnetar.pipeline.work_files import WorkDirectory

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from magnetar.jobs.audit.outcome import Tell
    from magnetar.jobs.audit.report import Report
    from magnetar.jobs.audit.settings import Settings
    from magnetar.jobs.scans import Ends, Plan
    from magnetar.jobs.survey import Skipped


def audit(settings: Settings, tell: Tell, stop: threading.Event) -> Report:
    """Compare the clusters. Raises MagnetarError, InterruptedJobError among them when ``stop`` is set."""
    findings = written_for("--findings", settings.findings)
    names = [cluster.name for cluster in settings.clusters]
    urls = urls_of(settings.clusters)
    with Survey(settings.clusters) as survey, WorkDirectory(settings.spark.work_dir) as work:
        chosen = survey.topics(settings.topics, settings.namespaces)
        selection = {"clusters": names, "topics": settings.topics, "namespaces": settings.namespaces}
        state = settings.state or work.path / "state"
        needs = Needs(settings.clusters, written=[state, work.path, *findings])
        with (
            Records(state, "audit", selection) as records,
            batch_session("audit", settings.spark, work.path, stop, needs) as session,
        ):
            scan = records.unfinished or records.begin(_plan(survey, chosen, records))
            read_parts(session, scan, partial(read_runs, urls), frames.RUNS_TYPE, partial(tell, Step.READING), stop)
            topics = sorted({topic for by_topic in records.ends.values() for topic in by_topic})
            logs = _logs(survey, topics, scan.plan, records.ends)
            conclusion = Conclusion(session, records, logs, urls, work.path)
            report = conclusion.report(survey, settings, tell, stop)
            scan.finish()
            if len(records.scans) > 1:
                join(conclusion.runs, records, logs, stop)
    return report


def _plan(survey: Survey, topics: list[str], records: Records) -> Plan:
    """Return what a new run reads: all entries after those of earlier runs."""
    delivered = survey.delivered(topics)  # before the ends, so that delivered entries are below them
    plan = plan_of(survey.bounds(topics), records.ends)
    plan.delivered = {
        cluster: {topic: places or {} for topic, places in by_topic.items()} for cluster, by_topic in delivered.items()
    }
    return plan


def _logs(survey: Survey, topics: list[str], plan: Plan, ends: Ends) -> dict[str, dict[str, Log]]:
    """Return the logs by topic and cluster, after their entries were read up to ``ends``."""
    found: dict[str, dict[str, Log]] = {}
    skipped = survey.skipped(topics)
    for cluster, by_topic in survey.bounds(topics).items():
        for topic, bound in by_topic.items():
            end = ends.get(cluster, {}).get(topic, EARLIEST)
            delivered = plan.delivered.get(cluster, {}).get(topic, {})
            found.setdefault(topic, {})[cluster] = (
                Log(end=end, head=Position(end.ledger_id + 1, 0), trimmed={}, delivered=delivered)
                if bound is None
                else Log(
                    exists=True,
                    end=end,
                    head=bound.head,
                    trimmed=bound.trimmed,
                    delivered=delivered,
                    skipped=_gaps(skipped[cluster][topic] or {}),
                )
            )
    return found


def _gaps(skipped: Mapping[str, Sequence[Skipped]]) -> dict[str, tuple[Gap, ...]]:
    return {
        target: tuple(
            Gap(Position(first.ledger_id, first.entry_id - 1), Position(last.ledger_id, last.entry_id + 1))
            for first, last in ranges
        )
        for target, ranges in skipped.items()
    }
