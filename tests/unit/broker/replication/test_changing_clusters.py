"""Clusters that join a namespace, leave it and return during use."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from magnetar.base.errors import ServerError
from magnetar.broker.topic.linked_topics import DELETION_GRACE_S
from magnetar.geo.origins.annotation import decode_annotation
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.policies import Policies
from magnetar.sim.cluster import NAMESPACE, TOPIC
from tests.unit.broker.world import Worker, World

SMALL_LEDGERS = ManagedLedgerConfig(max_entries_per_ledger=1, min_rollover_ms=0)


def configure(world: World, *names: str) -> None:
    """Set the replication clusters of the namespace in all clusters."""
    changed = Policies(replication_clusters=list(names))
    for cluster in world.clusters.values():
        cluster.do(partial(cluster.resources.namespaces.update, NAMESPACE, lambda _: changed))
    world.progress(0.5)


def recorded_starts(world: World, name: str) -> int:
    """Count the starts of links in the middle, recorded in a cluster's log."""
    ledger = world[name].topic().ledger
    runs = [run for each in ledger.ledgers() for run in ledger.runs_of(each.ledger_id)]
    return sum(decode_annotation(run.annotation).link_start for run in runs if run.annotation)


def half_consumed(*names: str, **settings: Any) -> World:  # noqa: ANN401 - of brokers
    """Publish three messages in the first cluster, and acknowledge the second one."""
    world = World(*names, ledger_config=SMALL_LEDGERS, settings=settings)
    for text in ("a", "b", "c"):
        world.publish(names[0], text)
    worker = Worker(world, names[0])
    worker.read()
    worker.ack("b")
    world.carry()
    world.progress()
    worker.leave()
    return world


@pytest.mark.parametrize(("start_at", "expected"), [("earliest", ["a", "c", "d"]), ("latest", ["d"])])
def test_a_cluster_that_joins_gets_the_backlog_by_policy_and_every_subscription(
    start_at: str, expected: list[str]
) -> None:
    world = half_consumed("ewr", "jfk", replicationStartAt=start_at)
    world.add("sfo", targets=["ewr", "jfk"])
    configure(world, "ewr", "jfk", "sfo")
    world.publish("ewr", "d")
    world.carry()
    world.progress(6)
    assert Worker(world, "sfo").read() == expected
    assert recorded_starts(world, "sfo") == (start_at == "latest")
    assert world["ewr"].topic().replicators["sfo"].lag.backlog == 0


def test_one_that_leaves_holds_nothing_back_and_what_it_acknowledged_stays() -> None:
    world = half_consumed("ewr", "jfk", "sfo")
    world.cut("ewr", "jfk")
    world.cut("jfk", "sfo")
    world.cut("ewr", "sfo")
    worker = Worker(world, "sfo")
    worker.read()
    worker.ack("a")
    world.heal("ewr", "sfo")
    worker.leave()
    for name in ("ewr", "jfk"):
        world[name].replicate_to(*{"ewr", "jfk"} - {name})
    world.heal("ewr", "jfk")
    for name in ("ewr", "jfk"):
        topic = world[name].topic()
        keeper = topic.subscriptions["worker"].progress
        assert keeper is not None
        assert list(topic.progress.unconfirmed(keeper)) == [*{"ewr", "jfk"} - {name}]
        assert not [each for each in topic.cursors.names() if "sfo" in each]
        other = Worker(world, name)
        assert other.read() == ["c"], name
        other.leave()
    other = Worker(world, "ewr")
    other.read()
    other.ack("c")
    world.progress()
    topic = world["ewr"].topic()
    world["ewr"].trim()
    assert topic.ledger.entries == 1, "nobody but the newest ledger is left to hold entries back"


def test_one_that_comes_back_goes_on_where_it_was_and_learns_what_happened_meanwhile() -> None:
    world = half_consumed("ewr", "jfk")
    world["ewr"].replicate_to()
    world["jfk"].replicate_to()
    world.publish("ewr", "d", "e")
    worker = Worker(world, "ewr")
    assert worker.read() == ["a", "c", "d", "e"]
    worker.ack("a", "d")
    world["ewr"].replicate_to("jfk")
    world["jfk"].replicate_to("ewr")
    world.carry()
    world.progress(6)
    worker.leave()
    assert world["jfk"].topic().ledger.entries == 5, "nothing came twice"
    assert Worker(world, "jfk").read() == ["c", "e"]
    assert recorded_starts(world, "jfk") == 0


def test_one_that_comes_back_too_late_for_what_was_trimmed_begins_in_the_middle_and_says_so() -> None:
    world = half_consumed("ewr", "jfk")
    world["ewr"].replicate_to()
    world["jfk"].replicate_to()
    world.publish("ewr", "trimmed")
    world.publish("ewr", "kept")
    worker = Worker(world, "ewr")
    worker.read()
    worker.ack("a", "c", "trimmed")
    worker.leave()
    world.settle()
    world["ewr"].trim()
    world["ewr"].replicate_to("jfk")
    world["jfk"].replicate_to("ewr")
    world.carry()
    world.progress(6)
    assert recorded_starts(world, "jfk") == 1
    assert Worker(world, "jfk").read() == ["kept"]


def test_a_cluster_that_its_namespace_leaves_serves_nobody_any_more() -> None:
    world = half_consumed("ewr", "jfk")
    worker, publisher = Worker(world, "jfk"), world["jfk"].client()
    publisher.produce()
    configure(world, "ewr")
    assert worker.client.take("CLOSE_CONSUMER")
    assert publisher.take("CLOSE_PRODUCER")
    worker.client.subscribe(consumer_id=2)
    (error,) = worker.client.take("ERROR")
    assert error.error == ServerError.MetadataError
    assert "clusters=['ewr']" in error.message
    configure(world, "ewr", "jfk")
    world.progress(6)
    assert sorted(Worker(world, "jfk").read()) == ["a", "c"]


def test_a_namespace_that_is_made_again_begins_anew() -> None:
    world = half_consumed("ewr", "jfk")
    for cluster in world.clusters.values():
        cluster.do(partial(cluster.delete, TOPIC))
        cluster.do(partial(cluster.resources.namespaces.delete, NAMESPACE))
    world.progress(6)
    for cluster in world.clusters.values():
        policies = Policies(replication_clusters=["ewr", "jfk"])
        cluster.do(partial(cluster.resources.namespaces.create, NAMESPACE, policies))
    world.publish("jfk", "new")
    world.progress(DELETION_GRACE_S)
    world.carry()
    world.progress(6)
    assert Worker(world, "ewr").read() == ["new"]
