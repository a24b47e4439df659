"""Topics that are deleted and created again, on one side or on both: new entries are neither dropped nor skipped."""

from __future__ import annotations

from functools import partial

import pytest

from magnetar.base.errors import ServerError
from magnetar.broker.topic.linked_topics import DELETION_GRACE_S
from magnetar.sim.cluster import TOPIC
from tests.unit.broker.network import ClusterNetwork, Worker


def delete(network: ClusterNetwork, *names: str) -> None:
    for name in names:
        network[name].do(partial(network[name].delete, TOPIC))


def wait_for_links(network: ClusterNetwork) -> None:
    """Wait until links create deleted topics again."""
    network.progress(DELETION_GRACE_S + 6)


def consumed(*names: str) -> ClusterNetwork:
    """Return clusters that have published and consumed."""
    network = ClusterNetwork(*names)
    for name in names:
        network.publish(name, f"old {name} 1", f"old {name} 2")
    worker = Worker(network, names[0])
    network.carry()
    network.progress()
    worker.ack(*worker.read())
    network.progress()
    worker.leave()
    return network


@pytest.mark.parametrize("deleted", [["ewr"], ["jfk"], ["ewr", "jfk"]])
def test_only_messages_after_a_deletion_are_delivered_everywhere(deleted: list[str]) -> None:
    network = consumed("ewr", "jfk")
    delete(network, *deleted)
    wait_for_links(network)
    network.publish("ewr", "new ewr")
    network.publish("jfk", "new jfk")
    network.carry()
    network.progress()
    for name in ("ewr", "jfk"):
        worker = Worker(network, name, subscription="worker")
        assert sorted(worker.read()) == ["new ewr", "new jfk"], name
        worker.leave()


def test_a_new_topic_that_is_still_empty_takes_nothing_over_from_the_old_one() -> None:
    network = consumed("ewr", "jfk", "sfo")
    network.publish("ewr", "unread 1", "unread 2")
    network.carry("ewr", "sfo")
    network.progress()
    delete(network, "ewr")
    wait_for_links(network)
    pipe = network.pipes["ewr", "jfk"]
    pipe.attach()
    network.publish("ewr", "new")
    pipe.run()
    worker = Worker(network, "jfk")
    assert worker.read() == ["new"]
    worker.ack("new")
    network.progress()
    assert Worker(network, "sfo").read() == ["unread 1", "unread 2"]


def test_a_tombstone_of_the_old_topic_leaves_alone_who_consumes_from_the_new_one() -> None:
    network = consumed("ewr", "jfk")
    topic = network["jfk"].topic()
    network["jfk"].do(lambda: topic.delete_subscription(topic.subscriptions["worker"], lambda _: None))
    network.progress()
    assert "worker" not in network["ewr"].topic().subscriptions
    network.cut("ewr", "jfk")
    delete(network, "jfk")
    worker = Worker(network, "jfk")
    network.publish("jfk", "a", "b")
    assert worker.read() == ["a", "b"]
    worker.ack("a")
    network.heal("ewr", "jfk")
    network.full_states()
    assert not worker.client.take("CLOSE_CONSUMER")
    network.carry()
    worker.leave()
    there = Worker(network, "ewr").read()
    assert "b" in there
    assert "a" not in there


def test_one_that_is_deleted_in_all_clusters_in_turn_stays_deleted() -> None:
    network = consumed("ewr", "jfk")
    for name in network.clusters:
        delete(network, name)
        network.progress(5)
    wait_for_links(network)
    assert not any(cluster.topics.exists(TOPIC) for cluster in network.clusters.values())


def test_a_client_makes_it_again_at_once_and_then_links_come_too() -> None:
    network = consumed("ewr", "jfk")
    delete(network, "ewr", "jfk")
    writer = network["jfk"].client()
    writer.produce(name="pulsar.repl.ewr-->jfk")
    (error,) = writer.take("ERROR")
    assert error.error == ServerError.ServiceNotReady
    assert "was deleted here" in error.message
    for name in network.clusters:
        Worker(network, name).leave()
    network.publish("ewr", "new")
    network.carry()
    assert Worker(network, "jfk").read() == ["new"]
