"""The progress of the links, and its metrics: a figure that is not known is left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from magnetar.base.names import NamespaceName
from magnetar.base.real import SystemClock
from magnetar.pipeline import limits
from magnetar.pipeline.driver.metrics import ReplicationMetrics
from magnetar.pipeline.driver.progress import LinkProgress, ProgressWatch
from magnetar.pipeline.driver.replicate import Progress
from magnetar.pipeline.driver.tasks import TaskStatuses
from magnetar.pipeline.options import ClusterAddress
from magnetar.pipeline.status import TaskStatus

if TYPE_CHECKING:
    import pytest

    from magnetar.admin.client import AdminClient
    from magnetar.base.names import TopicName


def links_of(topics: list[str]) -> dict[str, LinkProgress]:
    """Return the links of ewr, which replicates these topics to jfk, each with a backlog of one message."""
    names = [ClusterAddress(name, "", "http://localhost:1") for name in ("ewr", "jfk", "lga")]
    watch = ProgressWatch(names, (), SystemClock(), lambda _: None)
    client = SimpleNamespace(topics=SimpleNamespace(of_namespace=lambda _: topics))

    def replication_of(_: AdminClient, topic: TopicName) -> dict[str, dict[str, float]]:
        del topic
        return {"jfk": {"msgOutCount": 2, "replicationBacklog": 1, "replicationDelayInSeconds": 3}, "sfo": {}}

    served = [NamespaceName.parse("public/default")]
    found = watch._links_of("ewr", cast("AdminClient", client), served, replication_of)
    return {link.target: link for link in found}


def test_topics_beyond_the_limit_of_a_report_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROGRESS_TOPICS_MAX", 2)
    assert links_of(["a", "b"])["jfk"] == LinkProgress("ewr", "jfk", 2, 4, 0.0, 2, 3)
    assert links_of(["a", "b", "c"]) == {
        "jfk": LinkProgress("ewr", "jfk", 3, 4, 0.0, None, None, 1),
        "lga": LinkProgress("ewr", "lga"),
    }


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
    assert statuses.targets == 2, "the links of both were carried"
    assert statuses.heard(TaskStatus("jfk", 9, carrying=True, links=2), 20.0)
    assert not statuses.heard(TaskStatus("jfk", 7, carrying=True, links=3), 20.0), "of an earlier lease"
    assert shown(20.0) == [("jfk", 2.0)]
