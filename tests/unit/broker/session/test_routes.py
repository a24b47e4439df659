"""Topics whose clients another cluster serves: lookups, refusals, and clients that were connected before."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pytest

from magnetar.admin.fence_service import WantedFence
from magnetar.base.errors import RequestError, ServerError
from magnetar.base.names import TopicName
from magnetar.broker.admin.fences.operations import FenceOperations
from magnetar.broker.routed_clients import RoutedClients
from magnetar.broker.routing import Routing
from magnetar.metadata.policies import ClusterData
from magnetar.metadata.routes.document import StoredRoute
from magnetar.metadata.routes.table import Route
from magnetar.sim.cluster import TOPIC, Client, Cluster
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

JFK = ClusterData(brokerServiceUrl="pulsar://jfk:6650", brokerServiceUrlTls="pulsar+ssl://jfk:6651")
Migrated = pb.CommandTopicMigrated


class _Tool(Client):
    """A client of Magnetar itself."""

    def __init__(self, cluster: Cluster, version: str = "Magnetar 0") -> None:
        connect, commands.connect = commands.connect, lambda **_: connect(client_version=version)
        try:
            super().__init__(cluster)
        finally:
            commands.connect = connect


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(targets=("jfk",))
    cluster.do(lambda: cluster.resources.clusters.create("jfk", JFK))
    RoutedClients(cluster.environment, cluster.domains)
    return cluster


def route(cluster: Cluster, to: str | None, scope: str = "public", epoch: int = 1) -> None:
    cluster.do(lambda: cluster.resources.routes.put(scope, StoredRoute.of(Route(to, epoch))))


def looked_up(client: Client, topic: object = TOPIC, *, authoritative: bool = False) -> pb.CommandLookupTopicResponse:
    client.say(commands.lookup(topic=str(topic), request_id=1, authoritative=authoritative))
    (answer,) = client.take("LOOKUP_RESPONSE")
    assert isinstance(answer, pb.CommandLookupTopicResponse)
    return answer


def test_a_lookup_is_redirected_to_the_cluster_of_the_most_specific_route(cluster: Cluster) -> None:
    client = cluster.client()
    assert looked_up(client).response == pb.CommandLookupTopicResponse.Connect
    route(cluster, "jfk")
    found = looked_up(client)
    assert (found.response, found.authoritative) == (pb.CommandLookupTopicResponse.Redirect, True)
    assert (found.brokerServiceUrl, found.brokerServiceUrlTls) == (JFK.brokerServiceUrl, JFK.brokerServiceUrlTls)
    route(cluster, "ewr", scope=str(TOPIC))
    assert looked_up(client, TOPIC.partition(2)).response == pb.CommandLookupTopicResponse.Connect
    assert looked_up(client, "persistent://public/default/other").response == pb.CommandLookupTopicResponse.Redirect
    route(cluster, None, epoch=2)
    assert looked_up(client, "persistent://public/default/other").response == pb.CommandLookupTopicResponse.Connect


def test_the_other_cluster_tells_its_address_for_a_listener(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(_: Routing, to: str, asked: pb.CommandLookupTopic) -> pb.BaseCommand:
        if asked.advertised_listener_name != "external":
            raise RequestError(ServerError.ServiceNotReady, f"{to} has no {asked.advertised_listener_name}")
        answer = pb.BaseCommand()
        answer.lookupTopicResponse.brokerServiceUrl = f"pulsar://{to}.example:6650"
        return answer

    monkeypatch.setattr(Routing, "ask", ask)
    route(cluster, "jfk")
    client = cluster.client()
    client.session.listener = "external"
    found = looked_up(client)
    assert (found.response, found.authoritative) == (pb.CommandLookupTopicResponse.Redirect, True)
    assert (found.brokerServiceUrl, found.brokerServiceUrlTls) == ("pulsar://jfk.example:6650", "")
    client.session.listener = "x"
    assert looked_up(client).message == "jfk has no x"


def test_with_listeners_clients_look_up_again_instead_of_being_told_an_address(cluster: Cluster) -> None:
    cluster.topics.addresses = cluster.topics.addresses._replace(listeners={"external": JFK})
    consumer = cluster.client()
    consumer.subscribe(consumer_id=4)
    consumer.names()
    route(cluster, "jfk")
    assert consumer.names() == ["CLOSE_CONSUMER"]


def test_a_client_that_was_sent_here_is_not_sent_on(cluster: Cluster) -> None:
    route(cluster, "jfk")
    found = looked_up(cluster.client(), authoritative=True)
    assert (found.response, ServerError(found.error)) == (
        pb.CommandLookupTopicResponse.Failed,
        ServerError.ServiceNotReady,
    )


def test_a_route_to_a_cluster_without_an_address_is_told_as_such(cluster: Cluster) -> None:
    route(cluster, "lga")
    found = looked_up(cluster.client())
    assert ServerError(found.error) == ServerError.ServiceNotReady
    assert found.message == "a route leads to cluster lga, whose brokerServiceUrl is not registered in ewr"


def test_producers_and_consumers_of_another_cluster_are_refused_and_create_no_topic(cluster: Cluster) -> None:
    route(cluster, "jfk")
    client = cluster.client()
    client.produce()
    client.subscribe(permits=0)
    for error in client.take("ERROR"):
        assert ServerError(error.error) == ServerError.ServiceNotReady
        assert "are served by cluster jfk: look it up again" in error.message
    assert not client.heard
    assert not cluster.topics.exists(TOPIC)


def test_links_and_tools_use_the_topic_nevertheless(cluster: Cluster) -> None:
    route(cluster, "jfk")
    link = cluster.client()
    link.produce(name="pulsar.repl.jfk")
    assert link.names() == ["PRODUCER_SUCCESS"]
    tool = _Tool(cluster)
    assert looked_up(tool).response == pb.CommandLookupTopicResponse.Connect
    tool.subscribe()
    assert tool.names() == ["SUCCESS"]


def told(heard: Sequence[Any]) -> list[tuple[int, int, str, str]]:
    return [(each.resource_id, each.resource_type, each.brokerServiceUrl, each.brokerServiceUrlTls) for each in heard]


def test_connected_clients_learn_the_new_cluster_after_their_receipts(cluster: Cluster) -> None:
    publisher, consumer, tool = cluster.client(), cluster.client(), _Tool(cluster)
    publisher.produce(producer_id=3)
    consumer.subscribe(consumer_id=4)
    tool.subscribe(subscription="audit")
    for client in (publisher, consumer, tool):
        client.names()
    cluster.prompt = False
    publisher.send("a", producer_id=3)
    cluster.loop.call_soon(lambda: cluster.resources.routes.put("public", StoredRoute.of(Route("jfk", 1))))
    cluster.settle()
    assert told(publisher.take("TOPIC_MIGRATED")) == [
        (3, Migrated.Producer, JFK.brokerServiceUrl, JFK.brokerServiceUrlTls)
    ]
    assert publisher.names() == []
    cluster.commit()
    assert publisher.names() == ["SEND_RECEIPT", "CLOSE_PRODUCER"]
    assert told(consumer.take("TOPIC_MIGRATED")) == [
        (4, Migrated.Consumer, JFK.brokerServiceUrl, JFK.brokerServiceUrlTls)
    ]
    assert consumer.names()[-1] == "CLOSE_CONSUMER"
    assert "CLOSE_CONSUMER" not in tool.names()
    assert not list(cluster.topic().producers.clients())


def test_clients_stay_while_the_route_leads_here_or_is_for_another_topic(cluster: Cluster) -> None:
    client = cluster.client()
    client.produce()
    client.subscribe()
    client.names()
    route(cluster, "ewr")
    route(cluster, "jfk", scope="persistent://public/default/other")
    route(cluster, "jfk", scope="elsewhere")
    assert client.names() == []


def test_clients_of_a_non_persistent_topic_go_as_well(cluster: Cluster) -> None:
    client = cluster.client()
    client.topic = TopicName.parse("non-persistent://public/default/a")
    client.produce()
    client.subscribe()
    client.names()
    route(cluster, "jfk")
    names = client.names()
    assert sorted(names) == ["CLOSE_CONSUMER", "CLOSE_PRODUCER", "TOPIC_MIGRATED", "TOPIC_MIGRATED"]
    assert not cluster.domains.non_persistent.loaded


def fence(cluster: Cluster, phase: Literal["settling", "closed", "final"]) -> None:
    operations = FenceOperations(cluster.environment, cluster.topics)
    work = operations.set(TOPIC, WantedFence("m", 1, phase, 30), digests=False)
    cluster.do(partial(cluster.loop.create_task, work)).result()


def test_clients_that_wait_at_a_fence_are_refused_when_the_route_leads_elsewhere(cluster: Cluster) -> None:
    cluster.topic()
    for phase in ("settling", "closed", "final"):
        fence(cluster, phase)
    client = cluster.client()
    client.produce()
    client.subscribe()
    assert client.names() == []
    route(cluster, "jfk")
    assert [each.error for each in client.take("ERROR")] == [ServerError.ServiceNotReady] * 2


def test_tools_may_read_a_fenced_topic_and_nothing_else(cluster: Cluster) -> None:
    publisher = cluster.client()
    publisher.produce()
    publisher.send("a")
    fence(cluster, "settling")
    tool, reader = _Tool(cluster), cluster.client()
    for client in (tool, reader):
        client.subscribe(subscription="reader", durable=False)
    assert (tool.messages(), reader.messages()) == (["a"], [])
    fence(cluster, "closed")
    assert tool.take("CLOSE_CONSUMER") == []
    tool.subscribe(2, subscription="durable")
    tool.produce()
    assert tool.take("PRODUCER_SUCCESS") == []
    assert "durable" not in cluster.topic().subscriptions
