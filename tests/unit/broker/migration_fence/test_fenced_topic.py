"""A fenced topic keeps its clients away, in each phase as the table says, over crashes and until the end of a lease."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.admin.fence_service import WantedFence
from magnetar.admin.topic_service import StatsOptions
from magnetar.base.errors import AdminError
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.administration import Administration
from magnetar.broker.housekeeping.idleness import is_inactive
from magnetar.broker.housekeeping.inactivity import expiring
from magnetar.broker.migration_fence.fence import CLIENT_PATIENCE_S
from magnetar.sim.cluster import TOPIC, Client, Cluster, Exclusive, Failover, Shared
from magnetar.wire import commands
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.broker.mesh import Mesh

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine
    from typing import Literal

    from magnetar.base.position import Position

    Phase = Literal["settling", "closed", "final"]

PHASES: list[list[Phase]] = [["settling"], ["settling", "closed"], ["settling", "closed", "final"]]


def run(cluster: Cluster, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = cluster.do(partial(cluster.loop.create_task, work))
    return task


def administration(cluster: Cluster) -> Administration:
    return Administration(cluster.environment, cluster.domains, "http://here")


def fence(
    cluster: Cluster, *phases: Phase, migration: str = "m", epoch: int = 1, lease_s: float = 30
) -> dict[str, Any]:
    """Set phases, and return the last answer."""
    answer: dict[str, Any] = {}
    for phase in phases:
        wanted = WantedFence(migration, epoch, phase, lease_s)
        answer = run(cluster, administration(cluster).fences.set(TOPIC, wanted, digests=True)).result().to_json()
    return answer


def release(cluster: Cluster, *, is_decision: bool = True) -> None:
    run(cluster, administration(cluster).fences.remove(TOPIC, "m", 1, is_decision=is_decision)).result()


def received(client: Client) -> list[Position]:
    return [position_of(each.message_id) for each in client.take("MESSAGE")]


def published(cluster: Cluster, *texts: str) -> Client:
    client = cluster.client()
    client.produce(name="p")
    client.send(*texts)
    client.names()
    return client


@pytest.mark.parametrize("phases", PHASES, ids=lambda each: each[-1])
def test_clients_wait_for_the_end_of_a_fence_and_go_on(phases: list[Phase]) -> None:
    cluster = Cluster()
    producer = published(cluster, "a")
    consumer = cluster.client()
    consumer.subscribe(kind=Shared)
    assert consumer.messages() == ["a"]
    fence(cluster, *phases)
    assert producer.names() == ["CLOSE_PRODUCER"]
    producer.produce(name="p")
    late = cluster.client()
    late.subscribe(2)
    assert producer.names() == late.names() == []
    release(cluster)
    assert producer.names() == ["PRODUCER_SUCCESS"]
    assert late.take("SUCCESS")
    producer.send("b", first=1)
    late.say(commands.flow(consumer_id=2, message_permits=2))
    assert "b" in consumer.messages() + late.messages()


def test_accepted_entries_are_receipted_and_later_ones_are_not_stored() -> None:
    cluster = Cluster()
    producer = published(cluster)
    cluster.prompt = False
    producer.send("a", "b")
    setting = run(
        cluster, administration(cluster).fences.set(TOPIC, WantedFence("m", 1, "settling", 30), digests=False)
    )
    producer.send("c", first=2)
    cluster.prompt = True
    cluster.settle()
    assert producer.names() == ["SEND_RECEIPT", "SEND_RECEIPT", "CLOSE_PRODUCER"]
    last = setting.result().last_position
    assert last == cluster.topic().ledger.last_confirmed_entry
    assert cluster.topic().ledger.entries == 2


def test_a_producer_that_waits_for_access_does_not_get_it() -> None:
    cluster = Cluster()
    first, second = cluster.client(), cluster.client()
    first.produce(producer_access_mode=1)
    second.produce(producer_access_mode=2)
    second.names()
    fence(cluster, "settling")
    assert second.names() == ["CLOSE_PRODUCER"]
    assert not cluster.topic().producers
    assert cluster.topic().producers.access.waiting == []


def test_nothing_is_dispatched_and_acknowledgements_settle() -> None:
    cluster = Cluster()
    published(cluster, *"abc")
    consumer = cluster.client()
    consumer.subscribe(permits=2)
    held = received(consumer)
    assert fence(cluster, "settling")["subscriptions"]["worker"]["unacknowledgedMessages"] == 2
    consumer.say(commands.flow(consumer_id=1, message_permits=10))
    consumer.ack(held[0])
    assert received(consumer) == []
    consumer.ack(held[1], request_id=77)
    assert [each.request_id for each in consumer.take("ACK_RESPONSE")] == [77]
    settled = fence(cluster, "settling")["subscriptions"]["worker"]
    assert (settled["unacknowledgedMessages"], settled["unacknowledgedEntries"]) == (0, 1)


@pytest.mark.parametrize("kind", [Exclusive, Failover])
def test_entries_that_the_only_active_consumer_holds_are_counted(kind: pb.CommandSubscribe.SubType.ValueType) -> None:
    cluster = Cluster()
    published(cluster, *"abc")
    consumer = cluster.client()
    consumer.subscribe(kind=kind, permits=2)
    held = received(consumer)
    counts = []
    for position in held:
        counts.append(fence(cluster, "settling")["subscriptions"]["worker"]["unacknowledgedMessages"])
        consumer.ack(position)
    assert counts == [2, 1]
    assert fence(cluster, "settling")["subscriptions"]["worker"]["unacknowledgedMessages"] == 0


def test_a_closed_topic_takes_no_acknowledgement_and_those_before_are_durable() -> None:
    cluster = Cluster()
    published(cluster, *"ab")
    consumer = cluster.client()
    consumer.subscribe()
    first, second = received(consumer)
    fence(cluster, "settling")
    consumer.ack(first)
    before = fence(cluster, "closed")["subscriptions"]["worker"]
    assert consumer.names()[-1] == "CLOSE_CONSUMER"
    consumer.ack(second)
    assert fence(cluster, "closed")["subscriptions"]["worker"] == before
    cluster.crash()
    assert fence(cluster, "closed")["subscriptions"]["worker"] == before


def test_a_fence_survives_a_crash_and_its_lease_ends_by_the_wall_clock() -> None:
    cluster = Cluster()
    published(cluster, "a")
    fence(cluster, "settling", "closed", lease_s=30)
    cluster.loop.advance(20)
    cluster.crash()
    client = cluster.client()
    client.produce()
    assert client.names() == []
    assert fence_of(cluster)["leaseEndsInSeconds"] == 10
    cluster.loop.advance(CLIENT_PATIENCE_S)
    client.produce(2)
    cluster.loop.advance(CLIENT_PATIENCE_S - 0.1)
    cluster.loop.advance(0.1)
    cluster.settle()
    assert client.names() == ["ERROR", "PRODUCER_SUCCESS"]
    with pytest.raises(AdminError, match="its lease is over"):
        fence(cluster, "final")
    assert "migrationFence" not in stats(cluster)


def fence_of(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = run(cluster, administration(cluster).fences.get(TOPIC, digests=False)).result().to_json()
    return dict(found["fence"])


def stats(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = run(cluster, administration(cluster).topics.stats(TOPIC, StatsOptions())).result().to_json()
    return found


def test_a_decision_stays_and_statistics_show_it() -> None:
    cluster = Cluster()
    published(cluster, "a")
    fence(cluster, "settling", "closed", "final")
    cluster.loop.advance(10**6)
    cluster.crash()
    assert stats(cluster)["migrationFence"] == {"migration": "m", "epoch": 1, "phase": "final"}
    client = cluster.client()
    client.produce()
    cluster.loop.advance(CLIENT_PATIENCE_S)
    assert [each.error for each in client.take("ERROR")] == [pb.ServerError.ServiceNotReady]
    with pytest.raises(AdminError, match="another cluster may serve its clients"):
        release(cluster, is_decision=False)
    release(cluster)
    client.produce()
    assert client.names() == ["PRODUCER_SUCCESS"]


def test_a_renewed_lease_begins_anew() -> None:
    cluster = Cluster()
    published(cluster, "a")
    for _ in range(4):
        fence(cluster, "settling", lease_s=30)
        cluster.loop.advance(29)
    assert fence_of(cluster)["leaseEndsInSeconds"] == 1
    cluster.loop.advance(1)
    cluster.settle()
    assert fence(cluster, "settling", epoch=2)["fence"]["epoch"] == 2


def test_a_fence_that_was_set_again_during_its_removal_stays() -> None:
    cluster = Cluster()
    published(cluster, "a")
    fence(cluster, "settling")
    present = cluster.topic().log.migration_fence
    cluster.loop.call_soon(present._lease_over)
    cluster.loop.call_soon(partial(cluster.loop.create_task, _set_anew(cluster)))
    cluster.settle()
    assert fence_of(cluster)["epoch"] == 2
    assert present.is_set


async def _set_anew(cluster: Cluster) -> None:
    await administration(cluster).fences.set(TOPIC, WantedFence("m", 2, "settling", 30), digests=False)


def test_clients_are_refused_at_once_when_another_cluster_serves_them() -> None:
    cluster = Cluster()
    fence_topic = cluster.topic()
    fence(cluster, "settling", "closed", "final")
    client = cluster.client()
    client.produce()
    client.subscribe()
    client.names()
    cluster.do(fence_topic.log.migration_fence.send_away)
    assert client.names() == ["ERROR", "ERROR"]


@pytest.mark.parametrize("is_seek", [True, False])
def test_a_seek_and_an_unsubscription_wait_for_the_end_of_the_fence(*, is_seek: bool) -> None:
    cluster = Cluster()
    published(cluster, *"ab")
    consumer = cluster.client()
    consumer.subscribe()
    held = received(consumer)
    consumer.ack(*held)
    consumer.names()
    fence(cluster, "settling")
    if is_seek:
        consumer.say(commands.seek(consumer_id=1, request_id=9, position=held[0]))
    else:
        consumer.say(commands.unsubscribe(consumer_id=1, request_id=9))
    assert consumer.names() == []
    assert cluster.subscription().backlog == 0
    release(cluster)
    assert [each.request_id for each in consumer.take("SUCCESS")] == [9]
    if is_seek:
        assert cluster.subscription().backlog == 2
    else:
        assert "worker" not in cluster.topic().subscriptions


CHANGES: dict[str, Any] = {
    "skip": lambda here: here.subscriptions.skip(TOPIC, "worker", 1),
    "skip_all": lambda here: here.subscriptions.skip_all(TOPIC, "worker"),
    "expire": lambda here: here.subscriptions.expire(TOPIC, "worker", 0),
    "expire_through": lambda here: here.subscriptions.expire_through(TOPIC, "worker", EARLIEST),
    "reset": lambda here: here.subscriptions.reset(TOPIC, "worker", EARLIEST, is_excluded=False),
    "reset_to_time": lambda here: here.subscriptions.reset_to_time(TOPIC, "worker", 0),
    "create": lambda here: here.subscriptions.create(TOPIC, "new", EARLIEST, replicated=False),
    "delete": lambda here: here.subscriptions.delete(TOPIC, "worker", force=True),
    "delete the topic": lambda here: here.topics.delete(TOPIC, force=True),
    "trim": lambda here: here.logs.trim(TOPIC),
    "truncate": lambda here: here.logs.truncate(TOPIC),
    "terminate": lambda here: here.logs.terminate(TOPIC),
}


@pytest.mark.parametrize("phases", [PHASES[0], PHASES[2]], ids=lambda each: each[-1])
def test_no_operator_changes_a_fenced_topic(phases: list[Phase]) -> None:
    cluster = Cluster()
    published(cluster, *"ab")
    cluster.client().subscribe(permits=0)
    before = fence(cluster, *phases)
    for change in CHANGES.values():
        with pytest.raises(AdminError, match=r"fenced by migration m \(epoch 1, ") as refused:
            run(cluster, change(administration(cluster))).result()
        assert refused.value.status == 412
    after = fence(cluster, phases[-1])
    assert after["subscriptions"] == before["subscriptions"]
    release(cluster)
    run(cluster, CHANGES["skip"](administration(cluster))).result()


def test_a_partitioned_topic_with_a_fenced_partition_is_not_deleted() -> None:
    cluster = Cluster()
    name = TOPIC
    cluster.do(lambda: cluster.partition(name, 2))
    fences = administration(cluster).fences
    run(cluster, fences.set(name.partition(1), WantedFence("m", 1, "settling", 30), digests=False)).result()
    for force in (False, True):
        with pytest.raises(AdminError, match="fenced by migration m"):
            run(cluster, administration(cluster).topics.delete_partitioned(name, force=force)).result()
    assert cluster.topics.exists(name.partition(0))


def test_nothing_expires_and_nothing_is_unused() -> None:
    cluster = Cluster()
    published(cluster, *"ab")
    cluster.client().subscribe(permits=0)
    topic = cluster.topic()
    fence(cluster, "settling")
    last = topic.ledger.last_confirmed_entry
    assert cluster.do(lambda: topic.subscriptions["worker"].expire_through(last, 1.0)) == 0
    cluster.do(lambda: list(expiring(topic, 10.0**9)))
    assert cluster.subscription().backlog == 2
    cluster.crash()
    assert not is_inactive(cluster.topic())
    release(cluster)
    worker = cluster.subscription()
    assert cluster.do(lambda: worker.expire_through(last, 1.0)) == 2


def test_a_topic_is_unloaded_and_loaded_with_its_fence() -> None:
    cluster = Cluster()
    producer = published(cluster, "a")
    fence(cluster, "settling", lease_s=30)
    producer.produce()
    cluster.do(partial(cluster.topics.unload, TOPIC))
    assert producer.take("ERROR")
    cluster.loop.advance(29)
    assert fence_of(cluster)["leaseEndsInSeconds"] == 1
    cluster.do(partial(cluster.topics.unload, TOPIC))
    cluster.loop.advance(5)
    producer.produce()
    cluster.settle()
    assert "PRODUCER_SUCCESS" in producer.names()


def test_links_go_on_and_digests_are_equal_in_both_clusters() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", *"abcd")
    mesh.carry()
    consumers = {name: mesh.subscribe(name, replicate=False) for name in ("ewr", "jfk")}
    held = {name: received(each) for name, each in consumers.items()}
    source, target = mesh.clusters["ewr"], mesh.clusters["jfk"]

    def digests() -> list[str]:
        found = [run(each, administration(each).fences.get(TOPIC, digests=True)).result() for each in (source, target)]
        return [each.subscriptions["worker"].digest for each in found]

    fence(source, "settling")
    consumers["ewr"].ack(held["ewr"][1])
    assert len(set(digests())) == 2
    consumers["jfk"].ack(held["jfk"][1])
    fence(source, "closed")
    mesh.publish("jfk", "e")
    mesh.carry()
    assert mesh.entries("ewr") == mesh.entries("jfk") == 5
    assert len(set(digests())) == 1
    assert fence(source, "closed")["links"]["jfk"]["backlog"] == 0
