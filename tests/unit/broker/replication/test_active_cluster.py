"""Consumers in two clusters at once: merged, or refused if the policy names another cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import ServerError
from magnetar.sim.cluster import NAMESPACE
from tests.unit.broker.world import Worker, World

if TYPE_CHECKING:
    from magnetar.metadata.policies import Policies


def activate(world: World, active: str, *told: str) -> None:
    def changed(policies: Policies) -> Policies:
        return policies.model_copy(update={"replicated_subscription_active_cluster": active})

    for name in told:
        world[name].do(partial(world[name].resources.namespaces.update, NAMESPACE, changed))


def published(*texts: str) -> World:
    world = World("ewr", "jfk")
    world.publish("ewr", *texts)
    world.carry()
    return world


def refusal(worker: Worker) -> str:
    (error,) = worker.client.take("ERROR")
    assert error.error == ServerError.ConsumerBusy
    return str(error.message)


def test_without_the_policy_both_consume_and_what_either_acknowledged_is_done() -> None:
    world = published("a", "b", "c")
    workers = [Worker(world, "ewr"), Worker(world, "jfk")]
    assert [worker.read() for worker in workers] == [["a", "b", "c"]] * 2
    workers[0].ack("a")
    workers[1].ack("b")
    world.progress()
    for worker in workers:
        worker.leave()
        again = Worker(world, worker.cluster.name)
        assert again.read() == ["c"]
        again.leave()


def test_where_the_policy_names_another_cluster_a_consumer_is_refused_and_told_which() -> None:
    world = published("a")
    activate(world, "ewr", "ewr", "jfk")
    assert Worker(world, "ewr").read() == ["a"]
    message = refusal(Worker(world, "jfk"))
    assert "is consumed in cluster ewr, not in jfk" in message
    assert "replicated-subscription-active-cluster" in message
    world["jfk"].client().subscribe(subscription="not replicated")
    assert "worker" in world["jfk"].topic().subscriptions


def test_a_planned_switch_repeats_nothing() -> None:
    world = published("a", "b")
    activate(world, "ewr", "ewr", "jfk")
    worker = Worker(world, "ewr")
    worker.read()
    worker.ack("a")
    activate(world, "jfk", "ewr")
    assert worker.client.take("CLOSE_CONSUMER")
    refusal(Worker(world, "ewr"))
    refusal(Worker(world, "jfk"))
    world.progress()
    activate(world, "jfk", "jfk")
    assert Worker(world, "jfk").read() == ["b"]


def test_a_cluster_that_cannot_be_reached_need_not_agree() -> None:
    world = published("a", "b")
    activate(world, "ewr", "ewr", "jfk")
    there = Worker(world, "ewr")
    there.read()
    world.progress()
    world.cut("ewr", "jfk")
    there.ack("a")
    activate(world, "jfk", "jfk")
    here = Worker(world, "jfk")
    assert here.read() == ["a", "b"]
    here.ack("b")
    activate(world, "jfk", "ewr")
    assert there.client.take("CLOSE_CONSUMER")
    world.heal("ewr", "jfk")
    here.leave()
    assert Worker(world, "jfk").read() == []


def test_a_subscription_that_becomes_replicated_loses_its_consumers_where_they_may_not_be() -> None:
    world = published("a")
    activate(world, "ewr", "jfk")
    client = world["jfk"].client()
    client.subscribe()
    assert client.messages() == ["a"]
    topic = world["jfk"].topic()
    world["jfk"].do(lambda: topic.set_replicated(topic.subscriptions["worker"], replicated=True))
    assert client.take("CLOSE_CONSUMER")
