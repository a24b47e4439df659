"""The full state of a topic with many replicated subscriptions is copied in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.loop.slices import SLICE_ITEMS_MAX
from magnetar.sim.cluster import Cluster, Shared
from tests.unit.broker.network import ClusterNetwork, Worker

if TYPE_CHECKING:
    from magnetar.geo.progress.state import SubscriptionProgress

COUNT = 2 * SLICE_ITEMS_MAX + 10


def test_states_are_copied_in_slices() -> None:
    cluster = Cluster(targets=["jfk"])
    client = cluster.client()
    for number in range(COUNT):
        client.subscribe(
            consumer_id=number, subscription=f"s{number}", kind=Shared, permits=0, replicate_subscription_state=True
        )
    topic = cluster.topic()
    copied: list[int] = []
    states: list[SubscriptionProgress] = []
    steps = topic.progress._copy_each(states)

    async def copy() -> None:
        await cluster.environment.slices.run(steps)

    def look() -> None:
        copied.append(len(states))
        if len(copied) == 1:
            topic.delete_subscription(topic.subscriptions[f"s{COUNT - 1}"], lambda _: None)
        if len(copied) < 10:
            cluster.loop.call_soon(look)

    def begin() -> None:
        cluster.loop.create_task(copy())
        cluster.loop.call_soon(look)

    cluster.do(begin)
    assert [each.name for each in states] == [f"s{number}" for number in range(COUNT - 1)]
    assert 0 < copied[0] <= SLICE_ITEMS_MAX
    assert cluster.loop.problems == []


def test_progress_that_came_during_a_reader_of_the_name_is_applied_with_the_next_one() -> None:
    network = ClusterNetwork("ewr", "jfk")
    network.publish("ewr", "a", "b", "c")
    network.carry()
    reader = network["jfk"].client()
    reader.subscribe(durable=False)
    worker = Worker(network, "ewr")
    worker.read()
    worker.ack("a")
    network.progress()
    reader.leave()
    network.settle()
    worker.ack("c")
    network.progress()
    assert Worker(network, "jfk").read() == ["b"]
