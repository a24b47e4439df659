"""Reports of the namespaces that are replicated to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.names import NamespaceName, TopicName
from magnetar.broker.replication import link_watches
from magnetar.broker.replication.link_watches import LinkWatch
from magnetar.broker.replication.reports import REPORT_INTERVAL_S
from magnetar.metadata.policies import Policies
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.cluster import NAMESPACE, Client, Cluster
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.stored import delete, put
from tests.unit.broker.policies import set_in_topic

if TYPE_CHECKING:
    import pytest

Names = list[str]
ORDERS, FLIGHTS = NamespaceName("public", "orders"), NamespaceName("public", "flights")


def watching(cluster: Cluster, target: str = "jfk") -> Client:
    client = cluster.client()
    client.say(commands.watch_links(request_id=7, target=target))
    return client


def reports(client: Client) -> list[tuple[Names, Names, Names]]:
    """Return the reports since the last call: added and removed namespaces, and those with changed topics."""
    client.cluster.settle()
    found = client.take("LINKS_CHANGED")
    return [(list(each.added), list(each.removed), list(each.topics_changed)) for each in found]


def later(cluster: Cluster) -> None:
    """Let the interval between two reports pass."""
    cluster.loop.advance(2 * REPORT_INTERVAL_S)


def create(cluster: Cluster, namespace: NamespaceName, *clusters: str) -> None:
    cluster.do(lambda: cluster.resources.namespaces.create(namespace, Policies(replication_clusters=list(clusters))))


def replicate(cluster: Cluster, namespace: NamespaceName, *clusters: str) -> None:
    policies = Policies(replication_clusters=list(clusters))
    cluster.do(lambda: cluster.resources.namespaces.update(namespace, lambda _: policies))


def ledgers(name: str, namespace: NamespaceName = NAMESPACE) -> str:
    return managed_ledger_path(TopicName("persistent", namespace.tenant, namespace.namespace, name))


def test_the_first_report_has_all_namespaces_that_are_replicated_to_the_cluster() -> None:
    cluster = Cluster(targets=["jfk"])
    create(cluster, ORDERS, "ewr", "lga")
    create(cluster, FLIGHTS, "jfk", "lga")  # not in this cluster
    client = watching(cluster)
    assert client.names()[:1] == ["SUCCESS"]
    assert reports(watching(cluster)) == [([str(NAMESPACE)], [], [])]
    assert reports(watching(cluster, "lga")) == [([str(ORDERS)], [], [])]
    assert reports(watching(cluster, "sfo")) == [([], [], [])]


def test_a_namespace_is_reported_if_one_of_its_topics_is_replicated_to_the_cluster() -> None:
    cluster = Cluster(targets=[])
    topic = TopicName("persistent", NAMESPACE.tenant, NAMESPACE.namespace, "orders")
    client = watching(cluster)
    assert reports(client) == [([], [], [])]
    later(cluster)
    set_in_topic(cluster, topic, replicationClusters=["ewr", "jfk"])
    assert reports(client) == [([str(NAMESPACE)], [], [])]
    assert reports(watching(cluster)) == [([str(NAMESPACE)], [], [])]
    later(cluster)
    set_in_topic(cluster, topic, replicationClusters=None)
    assert reports(client) == [([], [str(NAMESPACE)], [])]


def test_a_change_of_policies_is_reported_at_once() -> None:
    cluster = Cluster()
    client = watching(cluster)
    assert reports(client) == [([], [], [])]
    later(cluster)
    create(cluster, ORDERS, "ewr", "jfk")
    assert reports(client) == [([str(ORDERS)], [], [])]
    later(cluster)
    replicate(cluster, ORDERS, "ewr", "jfk", "lga")
    assert reports(client) == []
    replicate(cluster, ORDERS, "ewr", "lga")
    assert reports(client) == [([], [str(ORDERS)], [])]
    later(cluster)
    replicate(cluster, ORDERS, "ewr", "jfk")
    later(cluster)
    cluster.do(lambda: cluster.resources.namespaces.delete(ORDERS))
    assert reports(client) == [([str(ORDERS)], [], []), ([], [str(ORDERS)], [])]


def test_topics_that_come_or_go_are_reported_for_replicated_namespaces() -> None:
    cluster = Cluster(targets=["jfk"])
    client, other = watching(cluster), watching(cluster, "lga")
    reports(client)
    later(cluster)
    put(cluster.metadata, ledgers("a"), b"{}")
    assert reports(client) == [([], [], [str(NAMESPACE)])]
    later(cluster)
    put(cluster.metadata, ledgers("a"), b'{"changed": true}')
    put(cluster.metadata, f"{ledgers('a')}/cursor", b"{}")
    later(cluster)
    assert reports(client) == []
    delete(cluster.metadata, ledgers("a"))
    assert reports(client) == [([], [], [str(NAMESPACE)])]
    later(cluster)
    delete(cluster.metadata, f"{ledgers('a')}/cursor")
    assert reports(client) == [([], [], [str(NAMESPACE)])]
    assert reports(other) == [([], [], [])]


def test_many_changes_need_few_reports() -> None:
    cluster = Cluster(targets=["jfk"])
    client = watching(cluster)
    for number in range(100):
        put(cluster.metadata, ledgers(str(number)), b"{}")
    create(cluster, ORDERS, "ewr", "jfk")
    cluster.do(lambda: cluster.resources.namespaces.delete(ORDERS))
    assert reports(client) == [([str(NAMESPACE)], [], [])]
    later(cluster)
    assert reports(client) == [([], [], [str(NAMESPACE)])]


def test_a_client_that_does_not_read_gets_one_report_afterwards() -> None:
    cluster = Cluster(targets=["jfk"])
    client = watching(cluster)
    assert len(reports(client)) == 1
    later(cluster)
    client.session.is_writable = False
    for number in range(10):
        put(cluster.metadata, ledgers(str(number)), b"{}")
        create(cluster, NamespaceName("public", str(number)), "ewr", "jfk")
        later(cluster)
    assert reports(client) == []
    assert len(client.session._unmade) == 1
    cluster.do(lambda: client.session.writable(is_writable=True))
    assert reports(client) == [([f"public/{number}" for number in range(10)], [], [str(NAMESPACE)])]


def test_a_long_report_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_watches, "REPORTED_AT_ONCE", 2)
    cluster = Cluster(targets=["jfk"])
    for number in range(4):
        create(cluster, NamespaceName("public", str(number)), "ewr", "jfk")
    client = watching(cluster)
    cluster.settle()
    found = client.take("LINKS_CHANGED")
    assert [(len(each.added), each.has_more) for each in found] == [(2, True), (2, True), (1, False)]


def test_a_connection_has_one_watch_which_ends_with_it() -> None:
    cluster = Cluster(targets=["jfk"])
    client = watching(cluster)
    client.say(commands.watch_links(request_id=8, target="lga"))
    (error,) = client.take("ERROR")
    assert (error.request_id, error.error) == (8, pb.NotAllowedError)
    assert error.message == "the connection has a watch of links already"
    client.leave()
    watches = cluster.domains.link_watches
    assert (watches._watches, watches._ends) == ({}, [])
    assert len(reports(watching(cluster))) == 1


def test_unreadable_policies_concern_their_namespace_only() -> None:
    cluster = Cluster(targets=["jfk"])
    put(cluster.metadata, f"/admin/policies/{ORDERS}", b"no JSON")
    client = watching(cluster)
    assert reports(client) == [([str(NAMESPACE)], [], [])]
    put(cluster.metadata, f"/admin/policies/{FLIGHTS}", b"no JSON")
    assert reports(client) == []


def test_a_namespace_that_was_created_again_has_changed_topics() -> None:
    watch = LinkWatch("jfk")
    assert watch.note(ORDERS, is_replicated=True)
    assert watch.take() == ([ORDERS], [], [], False)
    assert not watch.note(ORDERS, is_replicated=True)
    assert watch.note(ORDERS, is_replicated=False)
    assert watch.note(ORDERS, is_replicated=True)
    assert watch.take() == ([], [], [ORDERS], False)
    assert not watch.topics_changed(FLIGHTS)
    assert watch.take() == ([], [], [], False)
