"""A topic with many subscriptions is loaded in slices; it accepts clients after it is completely loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from magnetar.broker.admin.administration import Administration
from magnetar.broker.loop import slices
from magnetar.metadata.policies import Policies
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.cluster import NAMESPACE, TOPIC, Cluster
from tests.kit.stored import put

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

SUBSCRIPTIONS = 20


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 3)


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster with an unloaded topic of one entry and many subscriptions, one of which has read it."""
    cluster = Cluster()
    fill(cluster)
    cluster.do(lambda: cluster.topics.unload(TOPIC))
    assert TOPIC not in cluster.topics.loaded
    return cluster


def fill(cluster: Cluster) -> None:
    client = cluster.client()
    client.produce(name="p")
    client.send("a")
    ((_, position),) = client.receipts()
    for number in range(SUBSCRIPTIONS):
        client.subscribe(consumer_id=number, subscription=f"s{number:02}")
    client.ack(position, consumer_id=3)
    client.leave()


def turns_without(cluster: Cluster, begin: Callable[[], object]) -> int:
    """Begin an operation and run it to its end; return the number of turns in which the topic was not loaded."""
    looks: list[bool] = []

    def look() -> None:
        looks.append(TOPIC in cluster.topics.loaded)
        cluster.store.commit()
        if len(looks) < 100:
            cluster.loop.call_soon(look)

    cluster.loop.call_soon(begin)
    cluster.loop.call_soon(look)
    cluster.settle()
    assert looks[-1]
    return looks.count(False)


def begin(cluster: Cluster, work: Coroutine[Any, Any, Any]) -> tuple[list[asyncio.Task[Any]], Callable[[], object]]:
    """Return a list for the task, and a function that creates the task in the loop."""
    tasks: list[asyncio.Task[Any]] = []
    return tasks, lambda: tasks.append(cluster.loop.create_task(work))


def test_it_takes_many_turns_and_then_everything_is_there(cluster: Cluster) -> None:
    tasks, ask = begin(cluster, cluster.topics.ready(TOPIC))
    assert turns_without(cluster, ask) >= SUBSCRIPTIONS / 3
    assert tasks[0].done()
    topic = cluster.topics.loaded[TOPIC]
    assert len(topic.subscriptions) == SUBSCRIPTIONS
    backlogs = [each.backlog for each in topic.subscriptions.values()]
    assert (backlogs.count(1), backlogs.count(0)) == (SUBSCRIPTIONS - 1, 1)


def test_one_with_few_subscriptions_is_there_at_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 3 * SUBSCRIPTIONS)
    assert not cluster.do(lambda: cluster.topics.must_wait(TOPIC))


def test_clients_are_let_in_once_it_is_there(cluster: Cluster) -> None:
    clients = [cluster.client() for _ in range(3)]
    producer, consumer, new = clients
    producer.produce(name="p")
    consumer.subscribe(subscription="s07")
    new.subscribe(subscription="new")
    producer.send("b")
    assert producer.names() == ["PRODUCER_SUCCESS", "SEND_RECEIPT"]
    assert consumer.messages() == ["a", "b"]
    assert new.messages() == ["a", "b"]


def test_a_request_of_an_operator_waits_for_it(cluster: Cluster) -> None:
    administration = Administration(cluster.environment, cluster.domains, "http://here")
    tasks, ask = begin(cluster, administration.subscriptions.names(TOPIC))
    assert turns_without(cluster, ask) >= SUBSCRIPTIONS / 3
    assert len(tasks[0].result()) == SUBSCRIPTIONS


def test_links_have_it_loaded_in_slices_once_it_is_unloaded() -> None:
    cluster = Cluster(targets=["jfk"])
    fill(cluster)
    assert turns_without(cluster, lambda: cluster.topics.unload(TOPIC)) >= SUBSCRIPTIONS / 3
    assert cluster.topics.loaded[TOPIC].replicators["jfk"].lag.backlog == 1


def test_policies_that_change_meanwhile_hold(cluster: Cluster) -> None:
    changed = Policies(replication_clusters=[cluster.name, "jfk"])

    def ask() -> None:
        assert cluster.topics.must_wait(TOPIC)
        cluster.resources.namespaces.update(NAMESPACE, lambda _: changed)

    turns_without(cluster, ask)
    assert list(cluster.topics.loaded[TOPIC].replicators) == ["jfk"]


def test_a_namespace_that_leaves_the_cluster_meanwhile_takes_it_along(cluster: Cluster) -> None:
    changed = Policies(replication_clusters=["jfk"])

    def ask() -> None:
        assert cluster.topics.must_wait(TOPIC)
        cluster.resources.namespaces.update(NAMESPACE, lambda _: changed)

    cluster.do(ask)
    assert cluster.topics.loaded == {}
    assert not cluster.topics.is_shut(TOPIC)


def test_waiters_get_the_reason_of_a_failed_load(cluster: Cluster) -> None:
    path = f"{managed_ledger_path(TOPIC)}/cursors/s15"
    stored = cluster.metadata.get(path)
    assert stored is not None
    put(cluster.metadata, path, b"nonsense", stored.version)
    clients = [cluster.client() for _ in range(2)]
    clients[0].produce(name="p")
    clients[1].subscribe(subscription="s07", permits=0)
    for client in clients:
        (answer,) = client.take("ERROR")
        assert "cannot be loaded" in answer.message
        assert path in answer.message
    assert cluster.loop.problems == []
    cluster.delete(TOPIC)
    assert not cluster.topics.exists(TOPIC)


def test_a_broker_that_is_closed_meanwhile_writes_nothing(cluster: Cluster) -> None:
    waiting = cluster.client()
    stored = {path: cluster.metadata.get(path) for path in cursor_paths(cluster)}

    def ask_and_close() -> None:
        assert cluster.topics.must_wait(TOPIC)
        cluster.loop.call_soon(cluster.loop.call_soon, lambda: cluster.loop.create_task(cluster.topics.stop()))

    cluster.loop.call_soon(ask_and_close)
    waiting.subscribe(subscription="s07", permits=0)
    assert waiting.names() == ["ERROR"]
    assert cluster.topics.loaded == {}
    assert cluster.loop.problems == []
    assert stored == {path: cluster.metadata.get(path) for path in cursor_paths(cluster)}


def cursor_paths(cluster: Cluster) -> list[str]:
    root = f"{managed_ledger_path(TOPIC)}/cursors"
    return [f"{root}/{name}" for name in cluster.metadata.children(root)]


def test_it_can_be_deleted(cluster: Cluster) -> None:
    administration = Administration(cluster.environment, cluster.domains, "http://here")
    tasks, ask = begin(cluster, administration.topics.delete(TOPIC, force=False))
    cluster.do(ask)
    assert tasks[0].result() is None
    assert not cluster.topics.exists(TOPIC)
    assert cursor_paths(cluster) == []
