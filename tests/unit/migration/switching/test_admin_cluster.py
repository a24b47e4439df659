"""The requests of a switch to the admin API of a fake cluster."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.errors import MigrationError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST
from magnetar.migration.scope import Scope
from magnetar.migration.sides import UnansweredError, source_of
from magnetar.migration.switching.admin_cluster import AdminCluster
from magnetar.migration.switching.cluster import FenceRefusedError, ProducerState
from magnetar.migration.switching.fence import Fence, Phase
from magnetar.wire.links import NOTHING_PUBLISHED
from tests.unit.admin.fake_clusters import MagnetarTransport
from tests.unit.admin.fake_service import FakeAdminService, FakeSubscription, new_service

ORDERS = NamespaceName("shop", "orders")
EU, US = (TopicName.parse(f"persistent://shop/orders/{name}") for name in ("eu", "us"))


class Transport(MagnetarTransport):
    """Answers some requests in another way."""

    def __init__(self, service: FakeAdminService) -> None:
        super().__init__(service)
        self.instead: dict[tuple[str, str], list[httpx.Response]] = {}
        """Answers by method and end of the path, used once each."""
        self.seen: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(f"{request.method} {request.url.path}")
        for (method, end), answers in self.instead.items():
            if request.method == method and request.url.path.endswith(end) and answers:
                return answers.pop(0)
        return super().handle_request(request)


@dataclass
class Side:
    service: FakeAdminService
    transport: Transport
    client: AdminClient
    cluster: AdminCluster


def new_side() -> Side:
    service = new_service()
    transport = Transport(service)
    client = AdminClient("http://a:8080", transport=transport)
    client.tenants.create("shop", ["A"])
    client.namespaces.create(ORDERS, ["A"])
    return Side(service, transport, client, AdminCluster(source_of(client), "A", Scope("shop"), [str(ORDERS)], "m"))


@pytest.fixture
def here() -> Side:
    return new_side()


def test_a_fence_creates_a_topic_that_was_deleted(here: Side) -> None:
    assert here.cluster.look(str(EU)).subscriptions == {}
    found = here.cluster.fence(str(EU), 3, Phase.SETTLING)
    assert found.fence == Fence("m", 3, Phase.SETTLING)
    assert here.client.topics.of_namespace(ORDERS) == [EU]
    here.service.topics.held[EU].subscriptions["billing"] = FakeSubscription(EARLIEST)
    assert [each.digest for each in here.cluster.look(str(EU)).subscriptions.values()] == [None]
    assert [each.digest for each in here.cluster.look(str(EU), digests=True).subscriptions.values()] == ["00"]
    here.cluster.remove_fence(str(EU), 3)
    assert here.cluster.look(str(EU)).fence is None
    here.cluster.remove_fence(str(US), 3, final=True)


def test_a_refused_fence_and_a_failed_request_are_different(here: Side) -> None:
    here.client.topics.create(EU)
    refusal = httpx.Response(409, json={"reason": "no fence"})
    here.transport.instead = {("PUT", "/fence"): [refusal, httpx.Response(500, json={"reason": "broken"})]}
    with pytest.raises(FenceRefusedError, match=f"{EU}: .*no fence"):
        here.cluster.fence(str(EU), 3, Phase.CLOSED)
    with pytest.raises(UnansweredError):
        here.cluster.fence(str(EU), 3, Phase.CLOSED)


def test_sequence_ids_are_for_clusters_with_deduplication(here: Side) -> None:
    added = ProducerState(3, {"p": 7})
    assert here.cluster.producer_state(str(EU)) == ProducerState(), "there is no topic"
    here.cluster.add_producer_state(str(EU), added)
    here.client.topics.create(EU)
    assert here.cluster.producer_state(str(EU)) == ProducerState()
    here.cluster.add_producer_state(str(EU), added)
    assert here.cluster.producer_state(str(EU)) == ProducerState(3)
    here.service.topics.held[EU].sequence_ids = {"q": 1}
    here.cluster.add_producer_state(str(EU), added)
    assert here.cluster.producer_state(str(EU)) == ProducerState(3, {"p": 7, "q": 1})


def test_ids_of_the_former_cluster(here: Side) -> None:
    here.client.topics.create(EU)
    for reason, expected in ((NOTHING_PUBLISHED, ""), ("its ledger ids are too low", "its ledger ids are too low")):
        here.transport.instead = {("PUT", "/formerCluster/B"): [httpx.Response(412, json={"reason": reason})]}
        found = here.cluster.set_former(str(EU), "B")
        assert (expected in found, bool(found)) == (True, bool(expected))
    assert here.cluster.set_former(str(EU), "B") == ""
    former = here.client.messages.former_cluster(EU)
    assert former is not None
    assert former["cluster"] == "B"


def test_topics_with_all_partitions(here: Side) -> None:
    there = new_side()
    there.client.topics.create(EU)
    there.client.topics.create_partitioned(US, 3)
    parts = [f"{US}-partition-{index}" for index in range(3)]
    assert there.cluster.topics() == [str(EU), *parts]
    here.client.topics.create_partitioned(US, 1)
    for topic in (str(EU), str(EU), parts[2]):
        here.cluster.create_as_in(topic, there.cluster)
    assert here.cluster.topics() == [str(EU), *parts]
    other = new_side()
    other.cluster.create_as_in(parts[0], there.cluster)
    assert other.cluster.topics() == parts


def test_a_namespace_that_the_migration_does_not_know_is_not_switched(here: Side) -> None:
    here.client.namespaces.create(NamespaceName("shop", "new"), ["A"])
    assert here.cluster.topics() == [], "it is empty"
    here.client.topics.create(TopicName.parse("persistent://shop/new/a"))
    with pytest.raises(MigrationError, match=r"shop/new has topics in A, and .*\nhint: delete its topics"):
        here.cluster.topics()


def conflict() -> httpx.Response:
    return httpx.Response(409, json={"reason": "it was changed meanwhile"})


def test_a_route_is_changed_only_if_it_is_the_one_that_was_read(here: Side) -> None:
    cluster = here.cluster
    cluster.set_route("shop", "A")
    first = here.client.routes.get("shop")["epoch"]
    cluster.set_route("shop", "A")
    assert here.client.routes.get("shop")["epoch"] == first
    here.transport.instead = {("PUT", "/routes/shop"): [conflict()]}
    cluster.set_route("shop", "B")
    assert cluster.routes() == {"shop": "B"}
    here.transport.instead = {("DELETE", "/routes/shop"): [httpx.Response(404, json={"reason": "there is none"})]}
    cluster.delete_route("shop")  # the synchronizer has deleted it right before, too
    cluster.delete_route("shop")
    assert cluster.routes() == {}
    here.transport.instead = {("PUT", "/routes/shop"): [conflict() for _ in range(3)]}
    with pytest.raises(UnansweredError):
        cluster.set_route("shop", "B")


def test_a_subscription_is_replicated(here: Side) -> None:
    here.client.topics.create(EU)
    here.service.topics.held[EU].subscriptions["billing"] = FakeSubscription(EARLIEST)
    here.cluster.replicate(str(EU), "billing")
    here.cluster.replicate(str(EU), "deleted")
    assert here.service.topics.held[EU].subscriptions["billing"].replicated
