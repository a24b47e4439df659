"""The protection status of subscriptions in whole brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.broker.replication.protection import protection_of
from magnetar.geo.protection import Status
from magnetar.sim.cluster import NAMESPACE, TOPIC, Cluster, entry
from magnetar.wire import commands
from tests.unit.broker.network import ClusterNetwork, Worker

if TYPE_CHECKING:
    from magnetar.geo.protection import Judgement


def protection(cluster: Cluster, name: str = "worker") -> Judgement:
    topic = cluster.topic()
    judged: Judgement = cluster.do(lambda: protection_of(topic)[name])
    return judged


def told(cluster: Cluster, **policies: object) -> None:
    """Set policies of the namespace."""
    update = cluster.resources.namespaces.update
    cluster.do(lambda: update(NAMESPACE, lambda found: found.model_copy(update=policies)))


def carried(network: ClusterNetwork) -> None:
    """Attach a pipeline to every link."""
    network.carry()
    network.progress()


def test_protected_at_risk_and_protected_again() -> None:
    network = ClusterNetwork("ewr", "jfk")
    ewr = network["ewr"]
    positions = network.publish("ewr", "a", "b")
    worker = Worker(network, "ewr")
    worker.read()
    carried(network)
    found = protection(ewr)
    assert (found.status, found.at_least) == (Status.PROTECTED, True), found
    network.cut("ewr", "jfk")
    cut_at = ewr.clock.now()
    worker.ack("a")
    network.progress(5.0)
    found = protection(ewr)
    assert (found.status, found.since, found.at_least) == (Status.AT_RISK, cut_at, False)
    assert found.reasons[0].startswith("jfk: the progress link is down (")
    assert found.reasons[1] == "jfk: 1 acknowledgements are not confirmed, the oldest made 5.0 s ago"
    network.heal("ewr", "jfk")
    found = protection(ewr)
    assert (found.status, found.at_least) == (Status.PROTECTED, False)
    assert cut_at + 5.0 < found.since <= ewr.clock.now()
    assert positions


def test_messages_that_are_not_there_are_a_risk_too() -> None:
    network = ClusterNetwork("ewr", "jfk")
    Worker(network, "ewr")
    carried(network)
    clock = network["ewr"].clock
    published_at = clock.now()
    network["ewr"].client().subscribe(2, subscription="other")
    network.publish("ewr", "a")
    network.progress(3.0)
    found = protection(network["ewr"])
    assert found.status is Status.AT_RISK
    assert found.reasons[0].startswith("jfk: 1 messages are not there, the oldest stored")
    carried(network)
    found = protection(network["ewr"])
    assert found.status is Status.PROTECTED
    assert found.since >= published_at + 3.0
    assert not found.at_least


def test_loading_a_topic_does_not_make_messages_that_are_not_there_young() -> None:
    """Of a ledger that was closed, only the time of its newest entry is known."""
    network = ClusterNetwork("ewr", "jfk")
    ewr = network["ewr"]
    network.publish("ewr", "a")
    Worker(network, "ewr")
    network.progress(5.0)
    network.publish("ewr", "b")
    newest_at = ewr.clock.now()
    ewr.do(lambda: ewr.topics.unload(TOPIC))
    network.progress(0.5)
    network.pipes["ewr", "jfk"].attach(permits=1)
    found = protection(ewr)
    assert (found.status, found.at_least) == (Status.AT_RISK, True)
    age = ewr.clock.now() - newest_at
    assert found.reasons == (f"jfk: 2 messages are not there, the oldest stored at least {age:.1f} s ago",)
    carried(network)
    assert protection(ewr).status is Status.PROTECTED


def test_later_messages_do_not_hide_that_the_oldest_is_late() -> None:
    """Append times are stored for groups of entries. Such a group spans far less than the tolerance."""
    network = ClusterNetwork("ewr", "jfk")
    worker = Worker(network, "ewr")
    network.publish("ewr", "a")
    worker.read()
    worker.ack("a")
    carried(network)
    network.progress(2.0)
    assert protection(network["ewr"]).status is Status.PROTECTED
    client = network["ewr"].client()
    client.produce(name="steady")
    first_at = network["ewr"].clock.now()
    for each in range(4):
        client.send(f"steady-{each}")
        network.progress(0.4)
    found = protection(network["ewr"])
    assert found.status is Status.AT_RISK
    assert found.since == pytest.approx(first_at, abs=0.15)


def test_messages_that_are_late_stay_a_risk_while_the_link_changes_hands() -> None:
    """The entries at the target are unknown then, but the unconfirmed ones are known."""
    network = ClusterNetwork("ewr", "jfk")
    worker = Worker(network, "ewr")
    network.publish("ewr", "a")
    worker.read()
    worker.ack("a")
    carried(network)
    network.publish("ewr", "b")
    network.progress(3.0)
    before = protection(network["ewr"])
    assert before.status is Status.AT_RISK
    assert before.reasons[0].startswith("jfk: 1 messages are not there, the oldest stored")
    network.pipes["ewr", "jfk"].reader.leave()
    found = protection(network["ewr"])
    assert (found.status, found.since) == (Status.AT_RISK, before.since)


@pytest.mark.parametrize("ahead_s", [-1e6, 1e6])
def test_the_clock_of_a_producer_does_not_decide_since_when(ahead_s: float) -> None:
    network = ClusterNetwork("ewr", "jfk")
    Worker(network, "ewr")
    carried(network)
    producer, clock = network["ewr"].client(), network["ewr"].clock
    producer.produce(name="wrong")
    published_at = clock.now()
    dated = entry("a", publish_time=int((published_at + ahead_s) * 1000))
    producer.say(commands.send(producer_id=1, sequence_id=0, entry=dated))
    network.progress(7.5)
    found = protection(network["ewr"])
    assert found.status is Status.AT_RISK
    assert found.since == pytest.approx(published_at, abs=0.1)
    assert network["ewr"].topic().replicators["jfk"].lag.delay_s() == 7


def test_after_a_restart_nothing_is_claimed_that_is_not_known() -> None:
    network = ClusterNetwork("ewr", "jfk")
    Worker(network, "ewr")
    carried(network)
    network.cut("ewr", "jfk")
    network.progress(2.0)
    ewr = network["ewr"]
    ewr.crash()
    started_at = ewr.clock.now()
    ewr.topic()
    network.progress(5.0)
    found = protection(ewr)
    assert (found.status, found.since, found.at_least) == (Status.AT_RISK, started_at, True)
    assert any("is not known before it has confirmed" in reason for reason in found.reasons)


def test_unprotected_since_when_and_why() -> None:
    cluster = Cluster("ewr", targets=["jfk"])
    client = cluster.client()
    client.subscribe()
    created_at = cluster.clock.now()
    cluster.loop.advance(10)
    found = protection(cluster)
    assert (found.status, found.since, found.at_least) == (Status.UNPROTECTED, created_at, False)
    assert found.reasons == ("it is not replicated: neither a client nor a policy requests it",)
    cluster.crash()
    found = protection(cluster)
    assert (found.since, found.at_least) == (created_at + 10, True)


def test_that_it_ended_is_known_after_a_restart_too() -> None:
    cluster = Cluster("ewr", targets=["jfk"])
    cluster.client().subscribe(replicate_subscription_state=True)
    assert protection(cluster).status is Status.AT_RISK, "nobody has confirmed anything"
    cluster.loop.advance(10)
    forbidden_at = cluster.clock.now()
    told(cluster, replicated_subscriptions_allowed=False)
    for _ in range(2):
        cluster.loop.advance(10)
        cluster.settle()
        found = protection(cluster)
        assert (found.status, found.since, found.at_least) == (Status.UNPROTECTED, forbidden_at, False)
        assert found.reasons[0].startswith("replicated subscriptions are forbidden in ewr")
        cluster.crash()
    cluster.replicate_to()
    assert protection(cluster).since == forbidden_at, "for another reason, but unprotected all the time"
    assert protection(cluster).reasons == ("its namespace has no other cluster",)


def test_progress_by_snapshots_is_never_protected() -> None:
    network = ClusterNetwork("ewr", "jfk")
    for cluster in network.clusters.values():
        told(cluster, replicated_subscription_sync="markers")
    Worker(network, "ewr")
    carried(network)
    found = protection(network["ewr"])
    assert (found.status, found.at_least) == (Status.AT_RISK, True)
    assert found.reasons[0].startswith("jfk: acknowledgements are carried by snapshots (PIP-33)")


def test_readers_are_none_of_its_business() -> None:
    cluster = Cluster("ewr", targets=["jfk"])
    cluster.client().subscribe(subscription="reader", durable=False)
    assert protection_of(cluster.topic()) == {}
