"""Clusters that join a namespace, leave it and return during use."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from magnetar.base.errors import ServerError
from magnetar.broker.housekeeping.idleness import is_unused
from magnetar.broker.topic.linked_topics import DELETION_GRACE_S
from magnetar.geo.origins.annotation import decode_annotation
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.policies import Policies
from magnetar.sim.cluster import NAMESPACE, TOPIC
from tests.unit.broker.network import ClusterNetwork, Worker

SMALL_LEDGERS = ManagedLedgerConfig(max_entries_per_ledger=1, min_rollover_ms=0)


def configure(network: ClusterNetwork, *names: str) -> None:
    """Set the replication clusters of the namespace in all clusters."""
    changed = Policies(replication_clusters=list(names))
    for cluster in network.clusters.values():
        cluster.do(partial(cluster.resources.namespaces.update, NAMESPACE, lambda _: changed))
    network.progress(0.5)


def recorded_starts(network: ClusterNetwork, name: str) -> int:
    """Count the starts of links in the middle, recorded in a cluster's log."""
    ledger = network[name].topic().ledger
    runs = [run for each in ledger.ledgers() for run in ledger.runs_of(each.ledger_id)]
    return sum(decode_annotation(run.annotation).link_start for run in runs if run.annotation)


def half_consumed(*names: str, **settings: Any) -> ClusterNetwork:  # noqa: ANN401 - of brokers
    """Publish three messages in the first cluster, and acknowledge the second one."""
    network = ClusterNetwork(*names, ledger_config=SMALL_LEDGERS, settings=settings)
    for text in ("a", "b", "c"):
        network.publish(names[0], text)
    worker = Worker(network, names[0])
    worker.read()
    worker.ack("b")
    network.carry()
    network.progress()
    worker.leave()
    return network


@pytest.mark.parametrize(("start_at", "expected"), [("earliest", ["a", "c", "d"]), ("latest", ["d"])])
def test_a_cluster_that_joins_gets_the_backlog_by_policy_and_every_subscription(
    start_at: str, expected: list[str]
) -> None:
    network = half_consumed("ewr", "jfk", replicationStartAt=start_at)
    network.add("sfo", targets=["ewr", "jfk"])
    configure(network, "ewr", "jfk", "sfo")
    network.publish("ewr", "d")
    network.carry()
    network.progress(6)
    assert Worker(network, "sfo").read() == expected
    assert recorded_starts(network, "sfo") == (start_at == "latest")
    assert network["ewr"].topic().replicators["sfo"].lag.backlog == 0


def test_one_that_leaves_holds_nothing_back_and_what_it_acknowledged_stays() -> None:
    network = half_consumed("ewr", "jfk", "sfo")
    network.cut("ewr", "jfk")
    network.cut("jfk", "sfo")
    network.cut("ewr", "sfo")
    worker = Worker(network, "sfo")
    worker.read()
    worker.ack("a")
    network.heal("ewr", "sfo")
    worker.leave()
    for name in ("ewr", "jfk"):
        network[name].replicate_to(*{"ewr", "jfk"} - {name})
    network.heal("ewr", "jfk")
    for name in ("ewr", "jfk"):
        topic = network[name].topic()
        keeper = topic.subscriptions["worker"].progress
        assert keeper is not None
        assert list(topic.progress.unconfirmed(keeper)) == [*{"ewr", "jfk"} - {name}]
        assert not [each for each in topic.cursors.names() if "sfo" in each]
        other = Worker(network, name)
        assert other.read() == ["c"], name
        other.leave()
    other = Worker(network, "ewr")
    other.read()
    other.ack("c")
    network.progress()
    topic = network["ewr"].topic()
    network["ewr"].trim()
    assert topic.ledger.entries == 1, "nobody but the newest ledger is left to hold entries back"


def test_a_link_without_a_holder_keeps_no_messages_of_other_clusters() -> None:
    """A cluster that is away concerns only those that have messages of their own for it."""
    network = half_consumed("ewr", "jfk")
    network.add("sfo", targets=["ewr", "jfk"])
    configure(network, "ewr", "jfk", "sfo")
    topic = network["jfk"].topic()
    link = topic.replicators["sfo"]
    network.publish("ewr", "d")
    network.carry("ewr", "jfk")
    worker = Worker(network, "jfk")
    worker.ack(*worker.read())
    network.progress()
    assert link.consumer is None
    assert topic.backlog_quotas.size == 0
    network["jfk"].trim()
    assert topic.ledger.entries == 1, "only the newest ledger"
    assert network["ewr"].topic().ledger.entries == 4
    network.publish("jfk", "own")
    network.publish("ewr", "e")
    network.carry("ewr", "jfk")
    assert (link.lag.unconfirmed, topic.backlog_quotas.size > 0) == (1, True)
    network.carry()
    assert sorted(Worker(network, "sfo", subscription="all").read()) == ["a", "b", "c", "d", "e", "own"]


def test_a_topic_that_is_not_replicated_any_more_has_no_producers_of_links() -> None:
    """Otherwise it would count as in use, and never be unloaded or deleted for inactivity."""
    network = ClusterNetwork("ewr", "jfk")
    Worker(network, "ewr").leave()
    network.progress()
    assert [list(network[name].topic().producers) for name in ("ewr", "jfk")] == [
        ["magnetar.progress.jfk"],
        ["magnetar.progress.ewr"],
    ]
    for name in ("ewr", "jfk"):
        network[name].replicate_to()
    network.progress()
    for name in ("ewr", "jfk"):
        assert list(network[name].topic().producers) == []
        assert is_unused(network[name].topic())


def test_one_that_comes_back_goes_on_where_it_was_and_learns_what_happened_meanwhile() -> None:
    network = half_consumed("ewr", "jfk")
    network["ewr"].replicate_to()
    network["jfk"].replicate_to()
    network.publish("ewr", "d", "e")
    worker = Worker(network, "ewr")
    assert worker.read() == ["a", "c", "d", "e"]
    worker.ack("a", "d")
    network["ewr"].replicate_to("jfk")
    network["jfk"].replicate_to("ewr")
    network.carry()
    network.progress(6)
    worker.leave()
    assert network["jfk"].topic().ledger.entries == 5, "nothing came twice"
    assert Worker(network, "jfk").read() == ["c", "e"]
    assert recorded_starts(network, "jfk") == 0


def test_one_that_comes_back_too_late_for_what_was_trimmed_begins_in_the_middle_and_says_so() -> None:
    network = half_consumed("ewr", "jfk")
    network["ewr"].replicate_to()
    network["jfk"].replicate_to()
    network.publish("ewr", "trimmed")
    network.publish("ewr", "kept")
    worker = Worker(network, "ewr")
    worker.read()
    worker.ack("a", "c", "trimmed")
    worker.leave()
    network.settle()
    network["ewr"].trim()
    network["ewr"].replicate_to("jfk")
    network["jfk"].replicate_to("ewr")
    network.carry()
    network.progress(6)
    assert recorded_starts(network, "jfk") == 1
    assert Worker(network, "jfk").read() == ["kept"]


def test_a_cluster_that_its_namespace_leaves_serves_nobody_any_more() -> None:
    network = half_consumed("ewr", "jfk")
    worker, publisher = Worker(network, "jfk"), network["jfk"].client()
    publisher.produce()
    configure(network, "ewr")
    assert worker.client.take("CLOSE_CONSUMER")
    assert publisher.take("CLOSE_PRODUCER")
    worker.client.subscribe(consumer_id=2)
    (error,) = worker.client.take("ERROR")
    assert error.error == ServerError.MetadataError
    assert "clusters=['ewr']" in error.message
    configure(network, "ewr", "jfk")
    network.progress(6)
    assert sorted(Worker(network, "jfk").read()) == ["a", "c"]


def test_a_namespace_that_is_made_again_begins_anew() -> None:
    network = half_consumed("ewr", "jfk")
    for cluster in network.clusters.values():
        cluster.do(partial(cluster.delete, TOPIC))
        cluster.do(partial(cluster.resources.namespaces.delete, NAMESPACE))
    network.progress(6)
    for cluster in network.clusters.values():
        policies = Policies(replication_clusters=["ewr", "jfk"])
        cluster.do(partial(cluster.resources.namespaces.create, NAMESPACE, policies))
    network.publish("jfk", "new")
    network.progress(DELETION_GRACE_S)
    network.carry()
    network.progress(6)
    assert Worker(network, "ewr").read() == ["new"]
