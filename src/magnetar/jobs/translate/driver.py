"""The translation as a whole: what it asks the clusters, and the order of its Spark jobs."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from magnetar.jobs.acknowledgements import stored_states, write_states
from magnetar.jobs.reading import all_read, of_topics, plan_of, read_parts, urls_of, written_for
from magnetar.jobs.scans import Records
from magnetar.jobs.session import InterruptedJobError, Needs, batch_session, stoppable
from magnetar.jobs.survey import Survey
from magnetar.jobs.translate import frames
from magnetar.jobs.translate.applying import apply
from magnetar.jobs.translate.exports import chosen, export
from magnetar.jobs.translate.outcome import translation_of
from magnetar.jobs.translate.report import AMBIGUOUS_SHOWN_MAX, Report, counts_of
from magnetar.jobs.translate.scanning import read_identities
from magnetar.pipeline.work_files import WorkDirectory, spark_path

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from magnetar.jobs.scans import Plan, Scan
    from magnetar.jobs.translate.outcome import Translation
    from magnetar.jobs.translate.settings import Settings

    Tell = Callable[[str, int, int], None]
    """Called with a step of the work, and how much of it is done."""


class Step(StrEnum):
    """Steps of a translation, as its progress names them."""

    READING = "entries read"
    MATCHING = "entries matched"
    TRANSLATING = "subscriptions translated"
    APPLYING = "subscriptions set"


STEPS = tuple(step.value for step in Step)


def translate(settings: Settings, tell: Tell, stop: threading.Event) -> Report:
    """Translate the subscriptions. Raises MagnetarError, InterruptedJobError among them when ``stop`` is set."""
    mapping = written_for("--mapping", settings.mapping)
    source, target = settings.source.name, settings.target.name
    read = partial(read_identities, urls_of((settings.source, settings.target)), source)
    with Survey((settings.source, settings.target)) as survey, WorkDirectory(settings.spark.work_dir) as work:
        names = survey.topics(settings.topics, settings.namespaces)
        subscriptions = chosen(survey.subscriptions(names)[source], settings.subscriptions)
        topics = names if settings.mapping is not None else sorted(subscriptions)
        selection = {"from": [source], "to": [target], "topics": settings.topics, "namespaces": settings.namespaces}
        state = settings.state or work.path / "state"
        needs = Needs((settings.source, settings.target), written=[state, work.path, *mapping])
        with (
            Records(state, "translation", selection) as records,
            batch_session("translate", settings.spark, work.path, stop, needs) as session,
        ):
            entries_read = 0
            for scan in _scans(survey, settings, records, topics):
                read_parts(session, scan, read, frames.IDENTITIES_TYPE, partial(tell, Step.READING), stop)
                scan.finish()
                entries_read += scan.plan.entries
            tell(Step.MATCHING, 0, 1)
            with stoppable(session, stop):
                found = _matched(session, records, topics, work.path)
                counts = counts_of(topics, frames.tallies(found))
                ambiguous = frames.ambiguous(found, AMBIGUOUS_SHOWN_MAX)
                if settings.mapping is not None:
                    frames.mapping(found).write.parquet(spark_path(settings.mapping))
            tell(Step.MATCHING, 1, 1)
            tables = _exported(survey, (source, target), subscriptions, work.path, stop)
            heads = _heads(survey, target, topics)
            tell(Step.TRANSLATING, 0, len(tables))
            with stoppable(session, stop):
                verdicts = frames.translated(found, tables, heads, (source, target))
        translations = _translations(verdicts, tables, source)
        tell(Step.TRANSLATING, len(tables), len(tables))
        if settings.applies:
            _apply(translations, settings, survey, partial(tell, Step.APPLYING), stop)
    return Report(
        source=source,
        target=target,
        entries_read=entries_read,
        counts=counts,
        ambiguous=ambiguous,
        translations=translations,
    )


def _scans(survey: Survey, settings: Settings, records: Records, topics: list[str]) -> Iterator[Scan]:
    """Yield the rest of an interrupted run, and then what is new since its plan."""
    unfinished = records.unfinished
    if unfinished is not None:
        yield unfinished
    yield records.begin(_plan(survey, settings, records, topics))


def _plan(survey: Survey, settings: Settings, records: Records, topics: list[str]) -> Plan:
    """Return what a new run reads."""
    # The target first, so that entries that it has from the source are in the log of the source, or were.
    bounds = {each.name: survey.bounds_in(each.name, topics) for each in (settings.target, settings.source)}
    return plan_of(bounds, records.ends)


def _matched(session: SparkSession, records: Records, topics: Sequence[str], work: Path) -> DataFrame:
    """Match all entries of topics that were read, once."""
    entries = of_topics(all_read(session, records, frames.IDENTITIES_TYPE), topics)
    first, second = spark_path(work / "matched"), spark_path(work / "matches")
    frames.matched(entries, sum(scan.plan.entries for scan in records.scans)).write.parquet(first)
    found = session.read.schema(frames.MATCHES_TYPE).parquet(first)
    frames.with_deleted(found).write.parquet(second)
    return session.read.schema(frames.MATCHES_TYPE).parquet(second)


def _exported(
    survey: Survey,
    clusters: tuple[str, str],
    subscriptions: Mapping[str, Sequence[str]],
    work: Path,
    stop: threading.Event,
) -> dict[str, str]:
    """Write the states of subscriptions to files; return them by topic."""
    directory = work / "states"
    directory.mkdir()
    files = {}
    for number, (topic, names) in enumerate(subscriptions.items()):
        path = directory / f"{number}.arrow"
        write_states(path, export(survey, clusters, topic, names))
        files[topic] = str(path)
        if stop.is_set():
            raise InterruptedJobError
    return files


def _heads(survey: Survey, target: str, topics: list[str]) -> dict[str, int]:
    """Return the oldest ledger that the target has of each topic."""
    bounds = survey.bounds_in(target, topics)
    return {topic: found.head.ledger_id for topic, found in bounds.items() if found is not None}


def _translations(verdicts: pa.Table, files: Mapping[str, str], source: str) -> list[Translation]:
    """Return the translations of all subscriptions whose states are in ``files``."""
    found = []
    for topic, path in files.items():
        of_topic = verdicts.filter(pc.equal(verdicts["topic"], topic))
        for subscription, states in stored_states(path).items():
            if source in states:
                rows = of_topic.filter(pc.equal(of_topic["subscription"], subscription))
                found.append(translation_of(topic, subscription, rows))
    return found


def _apply(
    translations: Sequence[Translation],
    settings: Settings,
    survey: Survey,
    tell: Callable[[int, int], None],
    stop: threading.Event,
) -> None:
    admin = survey.client(settings.target.name)
    for number, each in enumerate(translations):
        if stop.is_set():
            raise InterruptedJobError
        tell(number, len(translations))
        apply(each, settings.target, admin)
    tell(len(translations), len(translations))
