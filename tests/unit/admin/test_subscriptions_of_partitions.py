"""Requests for a partitioned topic some of whose partitions have the subscription."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

import httpx
import pytest

from magnetar.admin.api import build_app
from magnetar.base.names import TopicName
from magnetar.broker.admin.administration import Administration
from magnetar.metadata.policies import Policies
from magnetar.metadata.policy.values import AutoTopicCreation
from magnetar.sim.cluster import NAMESPACE, Cluster, entry

TOPIC = TopicName.parse("persistent://public/default/parts")
PARTITIONS = 3
ONE = "/admin/v2/persistent/public/default/parts/subscription/worker"


def answered(cluster: Cluster, method: str, path: str, body: object = None) -> int:
    """Return the status of the answer."""
    transport = httpx.ASGITransport(
        build_app(Administration(cluster.environment, cluster.domains, ""), cluster.resources)
    )

    async def request() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.request(method, path, json=body)

    task = cluster.loop.create_task(request())
    cluster.settle()
    return task.result().status_code


def partitioned(*subscribed: int, targets: tuple[str, ...] = ()) -> Cluster:
    """Return a cluster with a partitioned topic with a message in each partition, and the subscription in some."""
    cluster = Cluster(targets=targets)
    cluster.do(lambda: cluster.partition(TOPIC, PARTITIONS))
    for index in range(PARTITIONS):
        topic = cluster.topic(TOPIC.partition(index))
        if index in subscribed:
            cluster.do(partial(topic.create_subscription, "worker", topic.log.before_first()))
        cluster.do(partial(topic.log.append, [entry("a")], lambda *_: None))
    return cluster


def backlogs(cluster: Cluster) -> dict[int, int]:
    topics = {index: cluster.topic(TOPIC.partition(index)) for index in range(PARTITIONS)}
    return {
        index: topic.subscriptions["worker"].backlog
        for index, topic in topics.items()
        if "worker" in topic.subscriptions
    }


def test_missing_subscriptions_are_created() -> None:
    cluster = partitioned(0)
    assert answered(cluster, "PUT", ONE) == HTTPStatus.NO_CONTENT
    assert backlogs(cluster) == {0: 1, 1: 0, 2: 0}
    assert answered(cluster, "PUT", ONE) == HTTPStatus.CONFLICT


def test_those_that_exist_are_deleted() -> None:
    cluster = partitioned(1, 2)
    assert answered(cluster, "DELETE", ONE) == HTTPStatus.NOT_FOUND
    assert backlogs(cluster) == {}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("skip_all", HTTPStatus.NOT_FOUND),
        ("expireMessages/5", HTTPStatus.NOT_FOUND),
        ("resetcursor/1800000000000", HTTPStatus.NO_CONTENT),
    ],
)
def test_those_that_exist_are_moved(path: str, status: HTTPStatus) -> None:
    cluster = partitioned(1, 2)
    cluster.loop.advance(60)
    assert answered(cluster, "POST", f"{ONE}/{path}") == status
    assert backlogs(cluster) == {1: 0, 2: 0}


def test_those_that_exist_are_changed() -> None:
    cluster = partitioned(1, 2, targets=("jfk",))
    assert answered(cluster, "PUT", f"{ONE}/properties", {"key": "value"}) == HTTPStatus.NOT_FOUND
    assert answered(cluster, "POST", f"{ONE}/replicatedSubscriptionStatus", body=True) == HTTPStatus.NOT_FOUND
    found = [cluster.topic(TOPIC.partition(index)).subscriptions["worker"] for index in (1, 2)]
    assert [each.cursor.subscription_properties for each in found] == [{"key": "value"}] * 2
    assert all(each.is_replicated for each in found)


@pytest.mark.parametrize(
    ("creation", "status", "created"),
    [
        (AutoTopicCreation(allowAutoTopicCreation=True, topicType="non-partitioned"), 204, ["new"]),
        (
            AutoTopicCreation(allowAutoTopicCreation=True, topicType="partitioned", defaultNumPartitions=2),
            204,
            ["new-partition-0", "new-partition-1"],
        ),
        (AutoTopicCreation(allowAutoTopicCreation=False), 404, []),
    ],
)
def test_a_missing_topic_is_created_with_its_subscription_if_clients_may_create_it(
    creation: AutoTopicCreation, status: int, created: list[str]
) -> None:
    cluster = Cluster()
    changed = Policies(replication_clusters=["ewr"], autoTopicCreationOverride=creation)
    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda _: changed))
    path = "/admin/v2/persistent/public/default/new/subscription/worker"
    assert answered(cluster, "PUT", path, "earliest") == status
    assert {name.local_name: list(topic.subscriptions) for name, topic in cluster.topics.loaded.items()} == {
        name: ["worker"] for name in created
    }
    if created:
        assert answered(cluster, "PUT", path, "earliest") == HTTPStatus.CONFLICT
    assert answered(cluster, "DELETE", path.replace("new", "none")) == HTTPStatus.NOT_FOUND


def test_a_partition_that_does_not_exist_is_not_created_with_a_subscription() -> None:
    cluster = partitioned()
    path = ONE.replace("/parts/", f"/parts-partition-{PARTITIONS}/")
    assert answered(cluster, "PUT", path, "earliest") == HTTPStatus.PRECONDITION_FAILED
