"""Replication of subscriptions by policy, independent of the client's request (PIP-398)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import AdminError, RequestError, ServerError
from magnetar.broker.admin.administration import Administration
from magnetar.geo.progress.codec import encode_markers
from magnetar.geo.progress.link import LinkOptions, ProgressLinks
from magnetar.geo.progress.state import SubscriptionProgress
from magnetar.sim.cluster import NAMESPACE, TOPIC, Client, Cluster
from magnetar.wire import commands
from magnetar.wire.entries import markers
from magnetar.wire.links import PROGRESS_PREFIX

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic


def told(cluster: Cluster, **policies: bool | None) -> None:
    """Set policies of the namespace."""
    update = cluster.resources.namespaces.update
    cluster.do(lambda: update(NAMESPACE, lambda found: found.model_copy(update=policies)))


def administered(cluster: Cluster, work: Any) -> Any:  # noqa: ANN401 - as the method
    """Call a method of the admin API; return its result or raise its error."""
    task = cluster.loop.start(work(Administration(cluster.environment, cluster.domains, "")))
    cluster.settle()
    return task.result()


def links_of(topic: Topic) -> list[str]:
    keeper = topic.subscriptions["worker"].progress
    return list(topic.progress.unconfirmed(keeper)) if keeper else []


def test_all_durable_subscriptions_are_replicated_as_soon_as_the_policy_says_so_and_no_other() -> None:
    cluster = Cluster("ewr", targets=["jfk"])
    client = cluster.client()
    client.produce()
    client.subscribe()
    client.subscribe(2, subscription="reader", durable=False)
    topic = cluster.topic()
    assert links_of(topic) == []
    told(cluster, replicate_subscription_state=True)
    assert {name: each.is_replicated for name, each in topic.subscriptions.items()} == {"worker": True, "reader": False}
    assert links_of(topic) == ["jfk"]
    client.subscribe(3, subscription="new")
    client.subscribe(4, subscription="new reader", durable=False, replicate_subscription_state=True)
    assert [cluster.subscription(name).is_replicated for name in ("new", "new reader")] == [True, False]


def test_it_outlives_a_crash_and_the_end_of_the_policy() -> None:
    cluster = Cluster("ewr", targets=["jfk"])
    cluster.client().subscribe()
    told(cluster, replicate_subscription_state=True)
    cluster.settle()
    told(cluster, replicate_subscription_state=None)
    cluster.crash()
    assert cluster.subscription().is_replicated


def test_a_topic_goes_before_its_namespace_and_that_before_the_broker() -> None:
    cluster = Cluster("ewr", targets=["jfk"], settings={"replicateSubscriptionState": True})
    told(cluster, replicate_subscription_state=False)
    cluster.client().subscribe()
    assert not cluster.subscription().is_replicated
    cluster.do(lambda: cluster.resources.topic_policies.change(TOPIC, replicateSubscriptionState=True))
    assert cluster.subscription().is_replicated


def test_a_topic_that_is_loaded_follows() -> None:
    cluster = Cluster("ewr", targets=["jfk"])
    cluster.client().subscribe()
    cluster.settle()
    cluster.settings["replicateSubscriptionState"] = True
    cluster.crash()
    assert cluster.subscription().is_replicated


def test_a_forbidden_replication_is_refused_for_everyone() -> None:
    cluster = Cluster("ewr", targets=["jfk"])
    told(cluster, replicated_subscriptions_allowed=False, replicate_subscription_state=True)
    client = cluster.client()
    client.subscribe(replicate_subscription_state=True)
    assert client.names() == ["SUCCESS"]
    assert not cluster.subscription().is_replicated
    for work in (
        lambda admin: admin.subscriptions.set_replicated(TOPIC, "worker", replicated=True),
        lambda admin: admin.subscriptions.create(TOPIC, "other", cluster.topic().log.before_first(), replicated=True),
    ):
        with pytest.raises(AdminError, match="forbidden in ewr: replicatedSubscriptionsAllowed is false"):
            administered(cluster, work)
    assert list(cluster.topic().subscriptions) == ["worker"]


def test_replication_by_policy_cannot_be_disabled_for_one_subscription() -> None:
    cluster = Cluster("ewr", targets=["jfk"])
    cluster.client().subscribe()
    told(cluster, replicate_subscription_state=True)
    with pytest.raises(AdminError, match="because of the policy replicateSubscriptionState"):
        administered(cluster, lambda admin: admin.subscriptions.set_replicated(TOPIC, "worker", replicated=False))
    told(cluster, replicate_subscription_state=None)
    administered(cluster, lambda admin: admin.subscriptions.set_replicated(TOPIC, "worker", replicated=False))
    assert not cluster.subscription().is_replicated


def peer(cluster: Cluster, source: str = "jfk") -> Client:
    """Open a progress link from another cluster."""
    client = cluster.client()
    client.produce(name=f"{PROGRESS_PREFIX}{source}")
    return client


def progress_of(client: Client, state: SubscriptionProgress, sequence_id: int = 0) -> None:
    (payload,) = encode_markers("jfk", [state], full=True)
    marker = markers.build_marker(markers.PROGRESS, payload, publish_time_ms=0)
    client.say(commands.send(producer_id=1, sequence_id=sequence_id, entry=marker, marker=True))


def test_while_it_is_forbidden_nothing_is_taken_and_nothing_is_sent() -> None:
    cluster = Cluster("ewr", targets=["jfk"])
    client = cluster.client()
    client.subscribe(replicate_subscription_state=True)
    link = peer(cluster)
    assert link.names() == ["PRODUCER_SUCCESS"]
    assert links_of(cluster.topic()) == ["jfk"]
    told(cluster, replicated_subscriptions_allowed=False)
    assert link.names() == ["CLOSE_PRODUCER"]
    assert links_of(cluster.topic()) == []
    progress_of(link, SubscriptionProgress("arriving"))
    assert list(cluster.topic().subscriptions) == ["worker"]
    refused = peer(cluster).take("ERROR")
    assert [(error.error, "forbidden in ewr" in error.message) for error in refused] == [
        (ServerError.NotAllowedError, True)
    ]


def test_once_it_is_allowed_again_it_goes_on_with_all_that_was_acknowledged_meanwhile() -> None:
    cluster = Cluster("ewr", targets=["jfk"])
    publisher, consumer = cluster.client(), cluster.client()
    publisher.produce()
    publisher.send("a", "b", "c")
    (first, *_) = (position for _, position in publisher.receipts())
    consumer.subscribe(replicate_subscription_state=True)
    told(cluster, replicated_subscriptions_allowed=False)
    consumer.ack(first)
    cluster.loop.advance(1)
    cluster.settle()
    cluster.crash()
    assert links_of(cluster.topic()) == []
    told(cluster, replicated_subscriptions_allowed=True)
    assert links_of(cluster.topic()) == ["jfk"]
    keeper = cluster.subscription().progress
    assert keeper is not None
    assert [claim.upper for claim in keeper.state.covered()] == [first]


class Refusing(ProgressLinks):
    """A peer that refuses progress producers until it allows them."""

    allowed = False
    asked = 0

    async def connection(self, peer: str) -> Any:  # noqa: ANN401 - the part of a connection that a link needs
        del peer
        return self

    peer_is_magnetar = True
    peer_life = ""

    async def create_producer(self, topic: str, name: str, metadata: object = None) -> Any:  # noqa: ANN401 - none
        del topic, name, metadata
        self.asked += 1
        if self.allowed:
            raise RequestError(ServerError.UnknownError, "allowed, and gone")
        raise RequestError(ServerError.NotAllowedError, "forbidden in jfk")


def test_a_peer_that_refuses_is_named_and_asked_again_when_it_sends_progress_itself() -> None:
    links: list[Refusing] = []

    def make(cluster: Cluster) -> ProgressLinks:
        links.append(Refusing("ewr", lambda _: None, cluster.clock, LinkOptions(0.05, 30)))
        return links[0]

    cluster = Cluster("ewr", targets=["jfk"], links=make)
    cluster.client().subscribe(replicate_subscription_state=True)
    progress = cluster.topic().progress
    assert progress.unavailable() == {"jfk": "forbidden in jfk"}
    cluster.loop.advance(30)
    assert links[0].asked == 1, "it is left alone"
    links[0].allowed = True
    progress_of(peer(cluster), SubscriptionProgress("arriving"))
    assert (links[0].asked, progress.unavailable()) == (2, {})


def test_success_says_that_it_is_replicated_once_that_is_durable() -> None:
    cluster = Cluster(targets=["jfk"], prompt=False)
    cluster.client().produce()
    cluster.commit()
    client = cluster.client()
    client.subscribe(replicate_subscription_state=True)
    assert client.names() == []
    cluster.commit()
    assert client.names() == ["SUCCESS"]
    cluster.crash()
    cluster.client().produce()
    assert cluster.subscription().is_replicated
