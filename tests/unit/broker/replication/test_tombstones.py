"""Deleted subscriptions stay deleted, unless a consumer uses them; the number of tombstones is limited."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import DiskFullError, MagnetarError, StorageError
from magnetar.base.limits import Limit
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.administration import Administration
from magnetar.broker.replication.progress import tombstones
from magnetar.broker.replication.progress.tombstones import Tombstones
from magnetar.broker.resources.limit_hits import LimitHits
from magnetar.broker.topic.lifecycle import State
from magnetar.geo.progress.codec import encode_markers
from magnetar.geo.progress.epochs import FIRST_EPOCH, Epoch
from magnetar.geo.progress.state import SubscriptionProgress
from magnetar.sim.cluster import TOPIC, Cluster, Exclusive
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.broker.mesh import SECOND, Mesh
from tests.unit.broker.network import ClusterNetwork, Worker

if TYPE_CHECKING:
    from magnetar.metadata.cached import Transaction


def unsubscribe(network: ClusterNetwork, name: str) -> None:
    topic = network[name].topic()
    outcomes: list[StorageError | None] = []
    network[name].do(lambda: topic.delete_subscription(topic.subscriptions["worker"], outcomes.append))
    assert outcomes == [None]


def subscribed() -> ClusterNetwork:
    """Return two clusters with a subscription that has read one of two messages."""
    network = ClusterNetwork("ewr", "jfk")
    network.publish("ewr", "a", "b")
    worker = Worker(network, "ewr")
    worker.read()
    worker.ack("a")
    network.carry()
    network.progress()
    worker.leave()
    return network


def exists(network: ClusterNetwork) -> list[str]:
    return [name for name in network.clusters if "worker" in network[name].topic().subscriptions]


def test_a_subscription_deleted_during_a_partition_is_deleted_everywhere_and_stays_so() -> None:
    network = subscribed()
    network.cut("ewr", "jfk")
    unsubscribe(network, "ewr")
    assert exists(network) == ["jfk"]
    network.heal("ewr", "jfk")
    network.full_states()
    assert exists(network) == []
    for cluster in network.clusters.values():
        cluster.crash()
    network.full_states()
    assert exists(network) == []


def test_a_deletion_is_one_write_and_one_that_fails_leaves_the_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    network = subscribed()
    ewr, writes = network["ewr"], list[list[str]]()
    topic, outcomes = ewr.topic(), list[StorageError | None]()

    def refuse(transaction: Transaction) -> None:
        writes.append([change.path for change in transaction.changes])
        ewr.metadata._failed(DiskFullError("metadata store: database or disk is full"))

    def delete() -> None:
        try:
            topic.delete_subscription(topic.subscriptions["worker"], outcomes.append)
        except StorageError as error:
            outcomes.append(error)

    with monkeypatch.context() as disk_full:
        disk_full.setattr(ewr.metadata, "_submit", refuse)
        ewr.loop.call_soon(delete)
        ewr.loop.spin()
    assert [type(outcome) for outcome in outcomes] == [DiskFullError]
    assert any(path.endswith("/cursors/worker") for path in writes[0])
    assert all("/cursors/worker" not in path for write in writes[1:] for path in write)
    ewr.settle()
    assert ewr.topic() is not topic, "the topic was fenced"
    assert exists(network) == ["ewr", "jfk"]
    ewr.crash()
    assert exists(network) == ["ewr", "jfk"]
    unsubscribe(network, "ewr")
    ewr.crash()
    assert exists(network) == ["jfk"]


def test_a_topic_that_could_not_store_a_deletion_takes_and_sends_no_progress_until_it_is_loaded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = subscribed()
    ewr, topic, sent = network["ewr"], network["ewr"].topic(), list[SubscriptionProgress]()
    applied: list[MagnetarError | None] = []
    refused: list[MagnetarError] = []

    def receive(epoch: Epoch) -> None:
        (marker,) = encode_markers("jfk", [SubscriptionProgress("worker", epoch=epoch)])
        topic.progress.receive("jfk", marker, applied.append, refused.append)

    def refuse(_: Transaction) -> None:
        ewr.metadata._failed(DiskFullError("metadata store: database or disk is full"))

    monkeypatch.setattr(topic.progress, "publish", lambda delta, _count, _oldest: sent.append(delta))
    with monkeypatch.context() as disk_full:
        disk_full.setattr(ewr.metadata, "_submit", refuse)
        ewr.loop.call_soon(topic.delete_subscription, topic.subscriptions["worker"], lambda _: None)
        ewr.loop.spin()
    assert topic.lifecycle.state is State.FENCED
    ewr.loop.call_soon(receive, FIRST_EPOCH)  # its answer would be the tombstone, which is not durable
    ewr.loop.call_soon(receive, Epoch(9, "jfk"))  # it would create the subscription, whose cursor is there again
    ewr.settle()
    assert applied == []
    assert [type(error) for error in refused] == [StorageError, StorageError]
    assert sent == []
    assert ewr.topic() is not topic
    network.full_states()
    assert exists(network) == ["ewr", "jfk"]


def test_one_created_again_begins_anew_everywhere() -> None:
    network = subscribed()
    network.cut("ewr", "jfk")
    unsubscribe(network, "ewr")
    worker = Worker(network, "ewr")
    assert worker.read() == ["a", "b"]
    worker.ack("b")
    network.heal("ewr", "jfk")
    worker.leave()
    assert Worker(network, "jfk").read() == ["a"]


def test_a_consumer_in_another_cluster_keeps_the_subscription_without_duplicates() -> None:
    network = subscribed()
    worker = Worker(network, "jfk")
    assert worker.read() == ["b"]
    unsubscribe(network, "ewr")
    network.full_states()
    assert exists(network) == ["ewr", "jfk"]
    network.publish("ewr", "c")
    network.carry()
    assert worker.read() == ["c"]
    worker.ack("b")
    network.progress()
    assert Worker(network, "ewr").read() == ["c"]


def test_a_deletion_that_arrives_during_a_seek_leaves_the_subscription_where_it_was_sought() -> None:
    network = subscribed()
    jfk = network["jfk"]
    client = jfk.client()
    client.subscribe(permits=0)
    jfk.prompt = False
    client.say(commands.seek(consumer_id=1, request_id=90, position=EARLIEST))
    assert client.names() == ["SUCCESS", "CLOSE_CONSUMER"]
    (marker,) = encode_markers("ewr", [SubscriptionProgress("worker", epoch=Epoch(9, "ewr"), deleted=True)])
    progress = jfk.topic().progress
    jfk.do(lambda: progress.receive("ewr", marker, lambda _: None, lambda error: pytest.fail(str(error))))
    jfk.prompt = True
    jfk.settle()
    assert client.names() == ["SUCCESS"]
    client.subscribe(initialPosition=pb.CommandSubscribe.Latest)
    assert client.messages() == ["a", "b"]


def test_a_consumer_that_waits_for_a_dead_rival_keeps_the_subscription() -> None:
    network = subscribed()
    jfk = network["jfk"]
    rival, client = jfk.client(), jfk.client()
    rival.subscribe(kind=Exclusive, permits=0)
    client.subscribe(kind=Exclusive, initialPosition=pb.CommandSubscribe.Latest)
    jfk.do(jfk.subscription().disconnect_consumers)  # it does not answer whether it is alive
    assert not jfk.subscription().consumers
    unsubscribe(network, "ewr")
    network.progress()
    assert exists(network) == ["ewr", "jfk"]
    network.loop.advance(6.0)
    network.settle()
    client.say(commands.flow(consumer_id=1, message_permits=9))
    assert client.messages() == ["b"]


def test_one_that_is_not_replicated_here_is_not_deleted_from_elsewhere() -> None:
    network = subscribed()
    topic = network["jfk"].topic()
    network["jfk"].do(lambda: topic.set_replicated(topic.subscriptions["worker"], replicated=False))
    unsubscribe(network, "ewr")
    network.full_states()
    assert exists(network) == ["jfk"]


def test_a_deletion_is_remembered_beside_a_subscription_that_is_not_replicated_here() -> None:
    cluster = ClusterNetwork("ewr", "jfk", "lga")["ewr"]
    client = cluster.client()
    client.subscribe(subscription="worker", permits=0)
    client.leave()

    def replicated_after(source: str, state: SubscriptionProgress) -> bool:
        (marker,) = encode_markers(source, [state])
        progress = cluster.topic().progress
        cluster.do(lambda: progress.receive(source, marker, lambda _: None, lambda error: pytest.fail(str(error))))
        cluster.crash()
        return cluster.topic().subscriptions["worker"].shared_progress is not None

    assert not replicated_after("jfk", SubscriptionProgress("worker", epoch=Epoch(2, "jfk"), deleted=True))
    assert not replicated_after("lga", SubscriptionProgress("worker", epoch=Epoch(1, "lga")))
    assert replicated_after("lga", SubscriptionProgress("worker", epoch=Epoch(3, "lga")))


def test_the_oldest_is_forgotten_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tombstones, "TOMBSTONES_MAX", 2)
    cluster = Cluster()
    ledger = cluster.topic().ledger
    hits = LimitHits()
    kept = Tombstones(ledger, hits)
    for name, counter in (("one", 1), ("two", 1), ("one", 3), ("three", 1)):
        kept.add(SubscriptionProgress(name, epoch=Epoch(counter, "ewr"), deleted=True))
    for each in (kept, Tombstones(ledger, LimitHits())):
        assert [state.name for state in each.states()] == ["one", "three"]
        assert each.epoch_for_new("one") == Epoch(4, "")
        assert each.epoch_for_new("two") == FIRST_EPOCH
        assert each.get("two") is None
    assert hits.counts()[Limit.TOMBSTONES.value] == 1


def made_again(network: ClusterNetwork, name: str) -> None:
    """Delete and recreate the topic in one cluster, and create its subscription with the admin API."""
    cluster = network[name]
    cluster.do(lambda: cluster.delete(TOPIC))
    cluster.do(lambda: cluster.topics.get_or_create(TOPIC))
    create = Administration(cluster.environment, cluster.domains, "").subscriptions.create
    cluster.loop.start(create(TOPIC, "worker", EARLIEST, replicated=True))
    cluster.settle()


def test_a_tombstone_of_the_topic_before_takes_no_subscription_that_was_made_without_a_consumer() -> None:
    for deleting in ("ewr", "jfk"):
        network = subscribed()
        unsubscribe(network, deleting)
        network.full_states()
        assert exists(network) == []
        made_again(network, "ewr")
        network.full_states()
        assert exists(network) == ["ewr", "jfk"], deleting
        unsubscribe(network, "jfk")
        network.full_states()
        assert exists(network) == [], deleting


def test_a_known_subscription_stays_known_after_a_restart_with_only_its_tombstone() -> None:
    network = subscribed()
    network.cut("ewr", "jfk")
    for cluster in network.clusters.values():
        cluster.crash()
    unsubscribe(network, "jfk")
    network.heal("ewr", "jfk")
    network.full_states()
    assert exists(network) == []


def test_a_third_cluster_does_not_take_the_old_tombstone_for_the_new_subscription_either() -> None:
    network = ClusterNetwork("ewr", "jfk", "sfo")
    network.cut("ewr", "sfo")
    network.cut("jfk", "sfo")
    Worker(network, "ewr").leave()
    network.progress()
    unsubscribe(network, "jfk")
    network.progress()
    network.cut("ewr", "jfk")
    made_again(network, "ewr")
    network.heal("ewr", "sfo")
    assert exists(network) == ["ewr", "sfo"]
    network.heal("jfk", "sfo")
    network.heal("ewr", "jfk")
    network.full_states()
    assert exists(network) == ["ewr", "jfk", "sfo"]


def test_a_tombstone_has_the_end_of_the_log() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a", "b")
    (_, first), (_, last) = client.receipts()
    ledger = cluster.topic().ledger
    Tombstones(ledger, LimitHits()).add(SubscriptionProgress("one", epoch=Epoch(1, "ewr"), deleted=True))
    kept = Tombstones(ledger, LimitHits())
    assert [kept.covers("one", position) for position in (first, last, ledger.next_position(last))] == [
        True,
        True,
        False,
    ]
    assert not kept.covers("two", first)


def test_an_update_of_pip_33_from_before_a_deletion_does_not_bring_the_subscription_back_and_a_newer_one_does() -> None:
    mesh = Mesh("ewr", "jfk")
    consumer = mesh.subscribe("ewr")
    mesh.subscribe("jfk").leave()
    mesh.second()
    for text in "abc":
        mesh.publish("ewr", text)
        mesh.second()
    consumer.ack(*mesh.texts("ewr"))
    mesh.loop.advance(SECOND)
    mesh.clusters["ewr"].settle()  # the update is in flight
    topic = mesh.clusters["jfk"].topic(TOPIC)
    assert topic.subscriptions["worker"].backlog == 3
    mesh.clusters["jfk"].do(lambda: topic.delete_subscription(topic.subscriptions["worker"], lambda _: None))
    mesh.second()
    assert "worker" not in mesh.clusters["jfk"].topic(TOPIC).subscriptions
    mesh.publish("ewr", "d")
    mesh.second()
    consumer.ack(*mesh.texts("ewr"))
    mesh.second()
    assert mesh.backlog("jfk") == 0
    assert mesh.clusters["jfk"].subscription().is_replicated
