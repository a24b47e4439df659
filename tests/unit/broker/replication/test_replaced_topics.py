"""Topics that are deleted and created again, on one side or on both: new entries are neither dropped nor skipped."""

from __future__ import annotations

from functools import partial

import pytest

from magnetar.base.errors import ServerError
from magnetar.broker.topic.linked_topics import DELETION_GRACE_S
from magnetar.sim.cluster import TOPIC
from tests.unit.broker.world import Worker, World


def delete(world: World, *names: str) -> None:
    for name in names:
        world[name].do(partial(world[name].delete, TOPIC))


def wait_for_links(world: World) -> None:
    """Wait until links create deleted topics again."""
    world.progress(DELETION_GRACE_S + 6)


def consumed(*names: str) -> World:
    """Return clusters that have published and consumed."""
    world = World(*names)
    for name in names:
        world.publish(name, f"old {name} 1", f"old {name} 2")
    worker = Worker(world, names[0])
    world.carry()
    world.progress()
    worker.ack(*worker.read())
    world.progress()
    worker.leave()
    return world


@pytest.mark.parametrize("deleted", [["ewr"], ["jfk"], ["ewr", "jfk"]])
def test_what_is_published_after_a_deletion_is_delivered_everywhere_and_nothing_else(deleted: list[str]) -> None:
    world = consumed("ewr", "jfk")
    delete(world, *deleted)
    wait_for_links(world)
    world.publish("ewr", "new ewr")
    world.publish("jfk", "new jfk")
    world.carry()
    world.progress()
    for name in ("ewr", "jfk"):
        worker = Worker(world, name, subscription="worker")
        assert sorted(worker.read()) == ["new ewr", "new jfk"], name
        worker.leave()


def test_a_new_topic_that_is_still_empty_takes_nothing_over_from_the_old_one() -> None:
    world = consumed("ewr", "jfk", "sfo")
    world.publish("ewr", "unread 1", "unread 2")
    world.carry("ewr", "sfo")
    world.progress()
    delete(world, "ewr")
    wait_for_links(world)
    pipe = world.pipes["ewr", "jfk"]
    pipe.attach()
    world.publish("ewr", "new")
    pipe.run()
    worker = Worker(world, "jfk")
    assert worker.read() == ["new"]
    worker.ack("new")
    world.progress()
    assert Worker(world, "sfo").read() == ["unread 1", "unread 2"]


def test_a_tombstone_of_the_old_topic_leaves_alone_who_consumes_from_the_new_one() -> None:
    world = consumed("ewr", "jfk")
    topic = world["jfk"].topic()
    world["jfk"].do(lambda: topic.delete_subscription(topic.subscriptions["worker"], lambda _: None))
    world.progress()
    assert "worker" not in world["ewr"].topic().subscriptions
    world.cut("ewr", "jfk")
    delete(world, "jfk")
    worker = Worker(world, "jfk")
    world.publish("jfk", "a", "b")
    assert worker.read() == ["a", "b"]
    worker.ack("a")
    world.heal("ewr", "jfk")
    world.full_states()
    assert not worker.client.take("CLOSE_CONSUMER")
    world.carry()
    worker.leave()
    there = Worker(world, "ewr").read()
    assert "b" in there
    assert "a" not in there


def test_one_that_is_deleted_in_all_clusters_in_turn_stays_deleted() -> None:
    world = consumed("ewr", "jfk")
    for name in world.clusters:
        delete(world, name)
        world.progress(5)
    wait_for_links(world)
    assert not any(cluster.topics.exists(TOPIC) for cluster in world.clusters.values())


def test_a_client_makes_it_again_at_once_and_then_links_come_too() -> None:
    world = consumed("ewr", "jfk")
    delete(world, "ewr", "jfk")
    writer = world["jfk"].client()
    writer.produce(name="pulsar.repl.ewr-->jfk")
    (error,) = writer.take("ERROR")
    assert error.error == ServerError.ServiceNotReady
    assert "was deleted here" in error.message
    for name in world.clusters:
        Worker(world, name).leave()
    world.publish("ewr", "new")
    world.carry()
    assert Worker(world, "jfk").read() == ["new"]
