"""A deletion of a namespace that arrives from another cluster deletes no message."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest
from structlog.testing import capture_logs

from magnetar.base.errors import AdminError
from magnetar.base.names import TopicName
from magnetar.broker.admin.administration import Administration
from magnetar.broker.admin.stranded import stranded_topics
from magnetar.broker.loop.slices import at_once
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.cluster import TOPIC, Cluster

PARTS = TopicName("persistent", TOPIC.tenant, TOPIC.namespace, "parts")


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster with a topic of two messages and a subscription, whose namespace is gone."""
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.subscribe(permits=0)
    client.send("a", "b")
    cluster.settle()
    client.leave()
    remove_namespace(cluster)
    return cluster


def remove_namespace(cluster: Cluster) -> Any:  # noqa: ANN401 - the policies
    """Delete the namespace as the metadata synchronizer does: without a look at its topics."""
    policies = cluster.resources.namespaces.get(TOPIC.namespace_name)
    cluster.do(lambda: cluster.resources.namespaces.delete(TOPIC.namespace_name))
    cluster.settle()
    return policies


def administration(cluster: Cluster) -> Administration:
    return Administration(cluster.environment, cluster.domains, "")


def delete(cluster: Cluster, topic: TopicName = TOPIC) -> None:
    task = cluster.loop.start(administration(cluster).stranded.delete(topic))
    cluster.settle()
    task.result()


def test_a_topic_without_a_namespace_is_listed_with_its_data(cluster: Cluster) -> None:
    found = at_once(administration(cluster).stranded.all())
    assert list(found) == [str(TOPIC)]
    assert found[str(TOPIC)].storage_size > 0
    assert found[str(TOPIC)].subscriptions == ["worker"]


def test_its_messages_are_there_when_the_namespace_returns(cluster: Cluster) -> None:
    policies = cluster.resources.namespaces.get(TOPIC.namespace_name)
    assert policies is None
    cluster.crash()
    assert list(stranded_topics(cluster.environment)) == [[TOPIC]]
    other = Cluster()
    restored = other.resources.namespaces.get(TOPIC.namespace_name)
    assert restored is not None
    cluster.do(lambda: cluster.resources.namespaces.create(TOPIC.namespace_name, restored))
    cluster.settle()
    assert list(stranded_topics(cluster.environment)) == [[]]
    assert cluster.topic().ledger.entries == 2
    assert cluster.subscription().backlog == 2


def test_it_is_deleted_on_request_only(cluster: Cluster) -> None:
    with capture_logs() as logs:
        delete(cluster)
    assert [each["topic"] for each in logs if each["event"] == "stranded_topic_deleted"] == [str(TOPIC)]
    assert cluster.metadata.get(managed_ledger_path(TOPIC)) is None
    assert at_once(administration(cluster).stranded.all()) == {}
    with pytest.raises(AdminError) as refused:
        delete(cluster)
    assert refused.value.status == HTTPStatus.NOT_FOUND


def test_a_topic_with_a_namespace_is_not_stranded() -> None:
    cluster = Cluster()
    cluster.topic()
    assert at_once(administration(cluster).stranded.all()) == {}
    with pytest.raises(AdminError) as refused:
        delete(cluster)
    assert refused.value.status == HTTPStatus.NOT_FOUND
    assert cluster.topics.exists(TOPIC)


def test_the_number_of_partitions_is_deleted_with_the_last_partition() -> None:
    cluster = Cluster()
    cluster.do(lambda: cluster.partition(PARTS, 2))
    remove_namespace(cluster)
    delete(cluster, PARTS.partition(0))
    assert cluster.resources.partitioned_topics.exists(PARTS)
    delete(cluster, PARTS.partition(1))
    assert not cluster.resources.partitioned_topics.exists(PARTS)
