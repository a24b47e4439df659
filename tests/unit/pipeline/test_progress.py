"""The progress of the links, and its metrics: a figure that is not known is left out."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from magnetar.base.errors import AdminError
from magnetar.base.names import NamespaceName
from magnetar.base.real import SystemClock
from magnetar.pipeline import limits
from magnetar.pipeline.driver.metrics import ReplicationMetrics
from magnetar.pipeline.driver.progress import LinkProgress, ProgressWatch, _replication
from magnetar.pipeline.driver.replicate import Progress
from magnetar.pipeline.driver.tasks import TaskStatuses
from magnetar.pipeline.options import ClusterAddress
from magnetar.pipeline.status import TaskStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

    from magnetar.admin.client import AdminClient


def links_of(
    topics: list[str], refused: Mapping[str, HTTPStatus] | None = None, further: Sequence[str] = ()
) -> dict[str, LinkProgress]:
    """Return the links of ewr, which replicates these topics to jfk, each with a backlog of one message.

    The stats of the ``refused`` topics are answered with these statuses. ewr does not have the ``further`` namespaces.
    """
    names = [ClusterAddress(name, "", "http://localhost:1") for name in ("ewr", "jfk", "lga")]
    watch = ProgressWatch(names, (), SystemClock(), lambda _: None)
    link = {"msgOutCount": 2, "replicationBacklog": 1, "replicationDelayInSeconds": 3}

    def stats(topic: str, *, earliest_time_in_backlog: bool) -> dict[str, Any]:
        del earliest_time_in_backlog
        if refused and topic in refused:
            raise AdminError(refused[topic], "refused")
        return {"replication": {"jfk": link, "sfo": {}}}

    def of_namespace(namespace: NamespaceName) -> list[str]:
        if namespace != served[0]:
            raise AdminError(HTTPStatus.NOT_FOUND, "Namespace does not exist")
        return topics

    client = SimpleNamespace(topics=SimpleNamespace(of_namespace=of_namespace, stats=stats))
    served = list(map(NamespaceName.parse, ("public/default", *further)))
    found = watch._links_of("ewr", cast("AdminClient", client), served, _replication)
    return {link.target: link for link in found}


def test_topics_beyond_the_limit_of_a_report_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROGRESS_TOPICS_MAX", 2)
    assert links_of(["a", "b"])["jfk"] == LinkProgress("ewr", "jfk", 2, 4, 0.0, 2, 3)
    assert links_of(["a", "b", "c"]) == {
        "jfk": LinkProgress("ewr", "jfk", 3, 4, 0.0, None, None, 1),
        "lga": LinkProgress("ewr", "lga"),
    }


def test_topics_that_the_source_cannot_report_are_unknown() -> None:
    deleted, failed = HTTPStatus.NOT_FOUND, HTTPStatus.INTERNAL_SERVER_ERROR
    assert links_of(["a", "b"], {"b": deleted})["jfk"] == LinkProgress("ewr", "jfk", 1, 2, 0.0, 1, 3)
    assert links_of(["a", "b"], {"b": failed}) == {
        "jfk": LinkProgress("ewr", "jfk", 2, 2, 0.0, None, None, 1),
        "lga": LinkProgress("ewr", "lga"),
    }
    alone = links_of(["b"], {"b": failed})
    assert alone["jfk"] == LinkProgress("ewr", "jfk", 1, 0, 0.0, None, None, 1), "it may replicate to every target"


def test_a_namespace_that_the_source_does_not_have_hides_no_other() -> None:
    assert links_of(["a"], further=["shop/elsewhere"])["jfk"] == LinkProgress("ewr", "jfk", 1, 2, 0.0, 1, 3)


def test_a_source_sums_up_its_topics_itself_but_an_earlier_version(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [ClusterAddress(name, "", "http://localhost:1") for name in ("ewr", "jfk", "lga", "sfo")]
    watch = ProgressWatch(names, (), SystemClock(), lambda _: None)
    known = {"topics": 3, "unknownTopics": 0, "msgOutCount": 7, "replicationBacklog": 2, "replicationDelayInSeconds": 5}
    unknown = {"topics": 2, "unknownTopics": 1, "msgOutCount": 1}

    answers: dict[str, HTTPStatus | dict[str, dict[str, dict[str, int]]]] = {
        "ewr": {"a/b": {"jfk": known, "other": known}, "a/c": {"jfk": known, "lga": unknown}},
        "jfk": HTTPStatus.NOT_FOUND,
        "lga": HTTPStatus.INTERNAL_SERVER_ERROR,
        "sfo": {},
    }

    def client(name: str) -> SimpleNamespace:
        def replication() -> dict[str, dict[str, dict[str, int]]]:
            answer = answers[name]
            if isinstance(answer, HTTPStatus):
                raise AdminError(answer, "refused")
            return answer

        return SimpleNamespace(brokers=SimpleNamespace(replication=replication))

    monkeypatch.setattr(watch, "_clients", {name: client(name) for name in answers})
    asked: list[str] = []

    def by_topic(sources: list[str]) -> list[LinkProgress]:
        asked.extend(sources)
        return []

    monkeypatch.setattr(watch, "_by_topic", by_topic)
    links = {(link.source, link.target): link for link in watch.poll()}
    assert asked == ["jfk"]
    assert {source for source, _ in links} == {"ewr", "sfo"}
    assert links["ewr", "jfk"] == LinkProgress("ewr", "jfk", 6, 14, 0.0, 4, 5)
    assert links["ewr", "lga"] == LinkProgress("ewr", "lga", 2, 1, 0.0, None, None, 1)
    assert links["ewr", "sfo"] == LinkProgress("ewr", "sfo")


def test_the_figures_of_a_source_that_does_not_answer_are_removed() -> None:
    metrics = ReplicationMetrics()
    ewr, jfk = LinkProgress("ewr", "jfk", 1, 5), LinkProgress("jfk", "ewr", 1, 5, backlog=None, delay_seconds=None)

    def shown(name: str) -> list[Any]:
        families = [each for each in metrics.registry.collect() if each.name == f"magnetar_replication_{name}"]
        return [(sample.labels["source"], sample.value) for each in families for sample in each.samples]

    metrics.note(Progress((ewr, jfk), ()))
    assert (shown("backlog"), shown("topics")) == ([("ewr", 0.0)], [("ewr", 1.0), ("jfk", 1.0)])
    metrics.note(Progress((jfk,), ()))
    assert (shown("backlog"), shown("topics"), shown("rate")) == ([], [("jfk", 1.0)], [("jfk", 0.0)])
    metrics.note(Progress((ewr,), ()))
    assert (shown("backlog"), shown("topics")) == ([("ewr", 0.0)], [("ewr", 1.0)])


def test_the_figures_of_a_task_that_reports_no_more_are_removed() -> None:
    metrics, statuses = ReplicationMetrics(), TaskStatuses()

    def shown(now: float) -> list[Any]:
        metrics.note(Progress((), statuses.recent(now)))
        families = [each for each in metrics.registry.collect() if each.name == "magnetar_replication_attached_topics"]
        return [(sample.labels["target"], sample.value) for each in families for sample in each.samples]

    assert statuses.heard(TaskStatus("jfk", 7, carrying=True, links=3), 0.0)
    assert statuses.heard(TaskStatus("lga", 7, carrying=True, links=1), 1.0)
    assert not statuses.heard(TaskStatus("lga", 8, carrying=False), 2.0), "it carries no links yet"
    assert shown(limits.STATUS_SILENT_SECONDS - 1) == [("jfk", 3.0), ("lga", 1.0)]
    assert shown(limits.STATUS_SILENT_SECONDS) == [("lga", 1.0)]
    assert statuses.heard_of == 2, "the links of both were carried"
    assert statuses.heard(TaskStatus("jfk", 9, carrying=True, links=2), 20.0)
    assert not statuses.heard(TaskStatus("jfk", 7, carrying=True, links=3), 20.0), "of an earlier lease"
    assert shown(20.0) == [("jfk", 2.0)]


def test_the_figures_of_a_hand_over_are_those_of_both_tasks() -> None:
    statuses = TaskStatuses()
    parked = {"ewr persistent://a/b/c": "refused"}
    old = TaskStatus("jfk", 7, carrying=True, links=3, parked=parked, rivals=["x"], in_flight_bytes=10)
    statuses.heard(old, 10.0)
    statuses.heard(TaskStatus("jfk", 8, carrying=True, entries=4), 10.5)
    assert statuses.recent(10.5) == (replace(old, lease=8, entries=4),)
    statuses.heard(replace(old, links=1, in_flight_bytes=2), 11.0)
    statuses.heard(TaskStatus("jfk", 8, carrying=True, links=2, in_flight_bytes=5), 11.5)
    (both,) = statuses.recent(11.5)
    assert (both.links, both.in_flight_bytes, both.parked) == (3, 7, parked)
    now = 11.0 + limits.HAND_OVER_SILENT_SECONDS
    assert statuses.recent(now) == (TaskStatus("jfk", 8, carrying=True, links=2, in_flight_bytes=5),)


def test_the_figures_of_a_target_are_those_of_all_its_tasks() -> None:
    statuses = TaskStatuses()
    for part in range(2):
        status = TaskStatus("jfk", 7, carrying=True, links=3, entries=5, in_flight_bytes=10, part=part)
        statuses.heard(replace(status, parked={f"ewr t{part}": "refused"}), 10.0)
    assert statuses.heard_of == 2
    (both,) = statuses.recent(10.0)
    assert (both.links, both.entries, both.in_flight_bytes) == (6, 10, 20)
    assert both.parked == {"ewr t0": "refused", "ewr t1": "refused"}
    statuses.heard(TaskStatus("jfk", 8, carrying=True, links=1, part=0), 10.5)
    (three,) = statuses.recent(10.5)
    assert (three.lease, three.links) == (8, 7)
