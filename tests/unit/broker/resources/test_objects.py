"""Clients cannot add topics, subscriptions, producers and consumers when the memory is used up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import AdminError, RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.base.names import TopicName
from magnetar.broker.admin.administration import Administration
from magnetar.broker.resources.objects import CHECK_INTERVAL_S, ObjectMemory
from magnetar.sim.cluster import TOPIC, Cluster
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.sim.cluster import Client

OTHER = TopicName.parse("persistent://public/default/other")


@dataclass
class Measured:
    """The memory of the process."""

    bytes: int = 0
    looks: int = 0

    def __call__(self) -> int:
        self.looks += 1
        return self.bytes


class FullCluster(Cluster):
    """A broker whose memory can be used up."""

    def fill(self) -> None:
        total = self.environment.memory.limits.total
        object.__setattr__(self.environment, "objects", ObjectMemory(total, self.clock, lambda: total, lambda: 1))


def refused(client: Client) -> None:
    (error,) = client.take("ERROR")
    assert error.error == pb.ServiceNotReady
    assert error.message.startswith("The memory of the broker is used up (memoryLimitMB)")
    assert client.cluster.environment.limit_hits.counts()[Limit.MEMORY] == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.produce(producer_id=2),
        lambda client: client.subscribe(consumer_id=2, subscription="s"),
        lambda client: client.subscribe(consumer_id=2, subscription="new"),
    ],
    ids=["producer", "consumer", "subscription"],
)
def test_clients_cannot_add_to_a_topic(ask: Callable[[Client], None]) -> None:
    cluster = FullCluster()
    client = cluster.client()
    client.produce()
    client.subscribe(subscription="s", permits=10)
    client.names()
    cluster.fill()
    ask(client)
    refused(client)
    client.send("still published")
    assert len(client.take("MESSAGE")) == 1


def test_clients_cannot_add_topics() -> None:
    cluster = FullCluster()
    cluster.fill()
    client = cluster.client()
    client.produce()
    refused(client)
    administration = Administration(cluster.environment, cluster.domains, "")
    for work in (administration.topics.create(OTHER, {}), administration.topics.create_partitioned(OTHER, 2, {})):
        task = cluster.loop.start(work)
        cluster.settle()
        with pytest.raises(AdminError, match="memoryLimitMB") as raised:
            task.result()
        assert (raised.value.status, raised.value.limit) == (503, Limit.MEMORY)
    assert not cluster.topics.exists(TOPIC)
    assert not cluster.topics.exists(OTHER)


def test_links_can_add_topics() -> None:
    cluster = FullCluster(targets=["jfk"])
    cluster.fill()
    link = cluster.client()
    link.produce(name="pulsar.repl.jfk-->ewr")
    assert link.take("ERROR") == []
    assert cluster.topics.exists(TOPIC)


def test_the_memory_is_measured_from_time_to_time() -> None:
    cluster, measured = Cluster(), Measured()
    objects = ObjectMemory(100, cluster.clock, measured, lambda: 1)
    objects.check()
    measured.bytes = 91
    objects.check()
    assert measured.looks == 1
    cluster.loop.advance(CHECK_INTERVAL_S)
    for _ in range(2):
        with pytest.raises(RequestError) as raised:
            objects.check()
        assert raised.value.code is ServerError.ServiceNotReady
    measured.bytes = 90
    cluster.loop.advance(CHECK_INTERVAL_S)
    objects.check()


class Process:
    """The memory of a process, which Python does not return to the system."""

    def __init__(self, total: int, blocks_at_start: int = 0) -> None:
        self.bytes = self.blocks = 0
        self.cluster = Cluster()
        measures = (lambda: self.bytes), (lambda: self.blocks)
        self.objects = ObjectMemory(total, self.cluster.clock, *measures, blocks_at_start)

    def is_full(self, resident: int, blocks: int) -> bool:
        self.bytes, self.blocks = resident, blocks
        self.cluster.loop.advance(CHECK_INTERVAL_S)
        return self.objects.is_full


def test_freed_memory_is_used_again_although_the_process_stays_as_large() -> None:
    process = Process(100)
    assert process.is_full(91, 1_000)
    assert process.is_full(91, 901)
    assert not process.is_full(91, 900)
    assert process.is_full(91, 950)


def test_blocks_that_no_topic_can_free_do_not_count() -> None:
    process = Process(100, blocks_at_start=10_000)
    assert process.is_full(91, 11_000)
    assert process.is_full(91, 10_901)
    assert not process.is_full(91, 10_900)
    assert process.objects.is_short
    assert not process.is_full(91, 10_600)
    assert not process.objects.is_short


def test_memory_is_short_until_much_of_it_is_free() -> None:
    process = Process(100)
    assert not process.is_full(90, 999)
    assert not process.objects.is_short
    assert process.is_full(91, 1_000)
    assert process.objects.is_short
    assert not process.is_full(91, 601)
    assert process.objects.is_short
    assert not process.is_full(91, 600)
    assert not process.objects.is_short


def test_memory_is_short_too_while_the_process_is_just_below_the_limit() -> None:
    process = Process(100)
    assert process.is_full(91, 1_000)
    assert not process.is_full(89, 1_000)
    assert process.objects.is_short
    assert not process.is_full(79, 1_000)
    assert not process.objects.is_short


def test_memory_outside_of_blocks_counts_up_to_the_limit() -> None:
    process = Process(100)
    assert process.is_full(91, 1_000)
    assert not process.is_full(100, 500)
    assert process.is_full(101, 500)


def test_a_process_above_its_limit_uses_freed_memory_and_does_not_grow() -> None:
    process = Process(100)
    assert process.is_full(120, 1_000)
    assert not process.is_full(120, 500)
    assert process.is_full(121, 500)


def test_the_blocks_are_compared_with_those_when_the_memory_became_full() -> None:
    process = Process(100)
    assert process.is_full(91, 1_000)
    assert not process.is_full(90, 400)
    assert not process.is_full(91, 500)
    assert process.is_full(91, 901)


def test_a_process_that_has_returned_memory_may_use_more_blocks_later() -> None:
    process = Process(100)
    assert process.is_full(91, 1_000)
    assert not process.is_full(79, 1_000)
    assert process.is_full(91, 2_000)
    assert not process.is_full(91, 1_500)
