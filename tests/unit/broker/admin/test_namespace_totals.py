"""Counters of a namespace do not go back when its topics are unloaded, since Prometheus takes that for a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from magnetar.admin.metrics.exposition import exposition
from magnetar.admin.metrics.links import LINK
from magnetar.admin.metrics.subscriptions import PROGRESS, SUBSCRIPTION
from magnetar.admin.metrics.topics import ENTRY_SIZE, TOPIC, WRITE_LATENCY
from magnetar.broker.admin.administration import Administration
from magnetar.metadata.policies import Policies
from magnetar.sim.cluster import NAMESPACE, Client, Cluster
from magnetar.sim.cluster import TOPIC as ORDERS
from magnetar.sim.pipe import Pipe
from magnetar.sim.virtual.loop import HandLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.admin.metrics.table import Metric

BY_NAMESPACE = {"exposeTopicLevelMetricsInPrometheus": False, "brokerDeduplicationEnabled": True}

DEDUPLICATED = 'magnetar_deduplicated_entries_total{cluster="ewr",namespace="public/default"}'
HANDOVERS = 'magnetar_replication_handovers_total{cluster="ewr",namespace="public/default",remote_cluster="jfk"}'


def scraped(cluster: Cluster) -> dict[str, float]:
    """Return the samples of the two counters."""
    administration, texts = Administration(cluster.environment, cluster.domains, ""), list[str]()

    async def scrape() -> None:
        texts.append(b"".join(await exposition(administration)).decode())

    cluster.loop.create_task(scrape())
    cluster.loop.spin()
    samples = [line.rpartition(" ") for line in texts[0].splitlines() if not line.startswith("#")]
    return {
        name: float(value)
        for name, _, value in samples
        if name.startswith(("magnetar_deduplicated_entries_total", "magnetar_replication_handovers_total"))
    }


@pytest.fixture
def linked() -> tuple[Cluster, Client, Pipe]:
    """ewr with a deduplicated topic and a link to jfk: two duplicates and one hand-over."""
    loop = HandLoop()
    source = Cluster("ewr", targets=["jfk"], loop=loop, settings=BY_NAMESPACE)
    pipe = Pipe(source, Cluster("jfk", targets=["ewr"], loop=loop))
    publisher = source.client()
    publisher.produce(name="p", user_provided_producer_name=True)
    pipe.attach()
    assert scraped(source) == {DEDUPLICATED: 0, HANDOVERS: 0}, "rate() needs the first sample"
    pipe.attach()
    publisher.send("a", "b")
    publisher.send("a", "b")
    assert scraped(source) == {DEDUPLICATED: 2, HANDOVERS: 1}
    return source, publisher, pipe


def unload(cluster: Cluster) -> None:
    cluster.do(lambda: cluster.topics.unload(ORDERS))


def delete_and_leave(cluster: Cluster) -> None:
    for client in cluster.clients:
        client.leave()
    cluster.delete(ORDERS)


def switch_deduplication_off(cluster: Cluster) -> None:
    off = Policies(replication_clusters=["ewr", "jfk"], deduplicationEnabled=False)
    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda _: off))


@pytest.mark.parametrize(
    "change",
    [unload, delete_and_leave, switch_deduplication_off, lambda cluster: cluster.replicate_to()],
    ids=["unload", "delete", "no deduplication", "no link"],
)
def test_counters_of_a_namespace_only_grow(
    linked: tuple[Cluster, Client, Pipe], change: Callable[[Cluster], Any]
) -> None:
    source, _, _ = linked
    change(source)
    assert scraped(source) == {DEDUPLICATED: 2, HANDOVERS: 1}


def test_topics_that_are_loaded_again_continue(linked: tuple[Cluster, Client, Pipe]) -> None:
    source, _, pipe = linked
    unload(source)
    publisher = source.client()
    publisher.produce(name="p", user_provided_producer_name=True)
    publisher.send("b", first=1)
    pipe.attach()
    pipe.attach()
    assert scraped(source) == {DEDUPLICATED: 3, HANDOVERS: 2}


def test_counters_end_with_their_namespace(linked: tuple[Cluster, Client, Pipe]) -> None:
    source, _, pipe = linked
    delete_and_leave(source)
    source.do(lambda: source.resources.namespaces.delete(NAMESPACE))
    assert scraped(source) == {}
    source.environment.totals.add_handovers(NAMESPACE, "jfk", 1)
    assert scraped(source) == {}, "a topic that is still being unloaded"
    source.do(lambda: source.resources.namespaces.create(NAMESPACE, Policies(replication_clusters=["ewr", "jfk"])))
    pipe.attach()
    assert scraped(source)[HANDOVERS] == 0


@pytest.mark.parametrize("metrics", [TOPIC, LINK, SUBSCRIPTION, PROGRESS, WRITE_LATENCY, ENTRY_SIZE])
def test_no_counter_is_the_sum_of_the_loaded_topics(metrics: list[Metric[Any]]) -> None:
    assert [each.name for each in metrics if each.kind == "counter" and each.combine is not None] == []
