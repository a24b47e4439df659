"""Consumers in two clusters at once: merged, or refused if the policy names another cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import ServerError
from magnetar.sim.cluster import NAMESPACE
from tests.unit.broker.network import ClusterNetwork, Worker

if TYPE_CHECKING:
    from magnetar.metadata.policies import Policies


def activate(network: ClusterNetwork, active: str, *told: str) -> None:
    def changed(policies: Policies) -> Policies:
        return policies.model_copy(update={"replicated_subscription_active_cluster": active})

    for name in told:
        network[name].do(partial(network[name].resources.namespaces.update, NAMESPACE, changed))


def published(*texts: str) -> ClusterNetwork:
    network = ClusterNetwork("ewr", "jfk")
    network.publish("ewr", *texts)
    network.carry()
    return network


def refusal(worker: Worker) -> str:
    (error,) = worker.client.take("ERROR")
    assert error.error == ServerError.ConsumerBusy
    return str(error.message)


def test_without_the_policy_both_consume_and_what_either_acknowledged_is_done() -> None:
    network = published("a", "b", "c")
    workers = [Worker(network, "ewr"), Worker(network, "jfk")]
    assert [worker.read() for worker in workers] == [["a", "b", "c"]] * 2
    workers[0].ack("a")
    workers[1].ack("b")
    network.progress()
    for worker in workers:
        worker.leave()
        again = Worker(network, worker.cluster.name)
        assert again.read() == ["c"]
        again.leave()


def test_a_consumer_is_refused_with_the_name_of_the_active_cluster() -> None:
    network = published("a")
    activate(network, "ewr", "ewr", "jfk")
    assert Worker(network, "ewr").read() == ["a"]
    message = refusal(Worker(network, "jfk"))
    assert "is consumed in cluster ewr, not in jfk" in message
    assert "replicated-subscription-active-cluster" in message
    network["jfk"].client().subscribe(subscription="not replicated")
    assert "worker" in network["jfk"].topic().subscriptions


def test_a_planned_switch_repeats_nothing() -> None:
    network = published("a", "b")
    activate(network, "ewr", "ewr", "jfk")
    worker = Worker(network, "ewr")
    worker.read()
    worker.ack("a")
    activate(network, "jfk", "ewr")
    assert worker.client.take("CLOSE_CONSUMER")
    refusal(Worker(network, "ewr"))
    refusal(Worker(network, "jfk"))
    network.progress()
    activate(network, "jfk", "jfk")
    assert Worker(network, "jfk").read() == ["b"]


def test_a_cluster_that_cannot_be_reached_need_not_agree() -> None:
    network = published("a", "b")
    activate(network, "ewr", "ewr", "jfk")
    there = Worker(network, "ewr")
    there.read()
    network.progress()
    network.cut("ewr", "jfk")
    there.ack("a")
    activate(network, "jfk", "jfk")
    here = Worker(network, "jfk")
    assert here.read() == ["a", "b"]
    here.ack("b")
    activate(network, "jfk", "ewr")
    assert there.client.take("CLOSE_CONSUMER")
    network.heal("ewr", "jfk")
    here.leave()
    assert Worker(network, "jfk").read() == []


def test_a_subscription_that_becomes_replicated_loses_its_consumers_where_they_may_not_be() -> None:
    network = published("a")
    activate(network, "ewr", "jfk")
    client = network["jfk"].client()
    client.subscribe()
    assert client.messages() == ["a"]
    topic = network["jfk"].topic()
    network["jfk"].do(lambda: topic.set_replicated(topic.subscriptions["worker"], replicated=True))
    assert client.take("CLOSE_CONSUMER")
