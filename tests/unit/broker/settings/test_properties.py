"""Metadata of producers and consumers, and stored properties, have limits."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import AdminError, RemoteProtocolError, RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.base.names import TopicName
from magnetar.broker.admin.administration import Administration
from magnetar.broker.session.receiving import receive
from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.properties import (
    LINK_METADATA_SIZE_MAX,
    consumer_metadata,
    producer_metadata,
    subscription_properties,
)
from magnetar.sim.cluster import Cluster
from magnetar.wire import commands
from magnetar.wire.links import LEASE_METADATA, LIFE_METADATA
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.sim.cluster import Client


def pairs(size: int, **others: str) -> list[pb.KeyValue]:
    """Return metadata with ``size`` characters beside the ``others``."""
    items = {"key": "ä" * (size - 3), **others}
    return [pb.KeyValue(key=key, value=value) for key, value in items.items()]


def produce(client: Client, size: int) -> None:
    client.produce(metadata=pairs(size))


def subscribe(client: Client, size: int) -> None:
    client.subscribe(metadata=pairs(size))


def subscribe_anew(client: Client, size: int) -> None:
    client.subscribe(subscription_properties=pairs(size))


@pytest.mark.parametrize(
    ("ask", "limit", "size_max"),
    [
        (produce, Limit.PRODUCER_METADATA_SIZE, 16 * 1024),
        (subscribe, Limit.CONSUMER_METADATA_SIZE, 1024),
        (subscribe_anew, Limit.PROPERTIES_SIZE, 64 * 1024),
    ],
)
def test_beyond_the_limit_they_are_refused(ask: Callable[[Client, int], None], limit: Limit, size_max: int) -> None:
    cluster = Cluster()
    client = cluster.client()
    ask(client, size_max + 1)
    (error,) = client.take("ERROR")
    assert error.error == ServerError.MetadataError
    assert error.message == f"metadata has a max size of {size_max} bytes ({limit})"
    assert cluster.environment.limit_hits.counts()[limit.value] == 1
    assert list(cluster.topic().subscriptions) == []
    ask(client, size_max)
    assert client.take("ERROR") == []


def test_the_same_key_many_times_counts_each_time() -> None:
    client = Cluster().client()
    client.subscribe(metadata=pairs(600) * 2)
    assert [error.error for error in client.take("ERROR")] == [ServerError.MetadataError]


def test_a_subscription_that_is_there_keeps_its_properties() -> None:
    cluster = Cluster(settings={"maxPropertiesSize": 100})
    subscribe_anew(cluster.client(), 100)
    cluster.settings["maxPropertiesSize"] = 50
    cluster.crash()
    client = cluster.client()
    subscribe_anew(client, 100)
    assert client.take("ERROR") == []
    assert len(cluster.subscription().cursor.subscription_properties["key"]) == 97


@pytest.mark.parametrize("durable", [False, True])
def test_the_properties_of_a_subscription_are_freed_with_it(durable: bool) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.subscribe(subscription="s", durable=durable, subscription_properties=pairs(1000))
    subscription = cluster.subscription("s")
    assert len(subscription.cursor.subscription_properties) == 1
    if durable:
        topic = cluster.topic()
        cluster.do(lambda: topic.delete_subscription(subscription, lambda _: None))
    client.leave()
    assert "s" not in cluster.topic().subscriptions
    assert subscription.cursor.subscription_properties == {}


NO_METADATA = {"maxProducerMetadataSize": 0, "maxConsumerMetadataSize": 0}


@pytest.mark.parametrize("name", ["pulsar.repl.jfk-->ewr", "magnetar.progress.jfk"])
def test_producers_of_links_have_a_limit_of_their_own(name: str) -> None:
    cluster = Cluster(targets=["jfk"], settings=NO_METADATA)
    client = cluster.client()
    client.produce(name=name, metadata=pairs(10, **{LIFE_METADATA: "abc@5"}))
    assert len(client.take("PRODUCER_SUCCESS")) == 1
    client.produce(2, name=name, metadata=pairs(LINK_METADATA_SIZE_MAX + 1))
    assert [error.error for error in client.take("ERROR")] == [ServerError.MetadataError]
    assert cluster.environment.limit_hits.counts()[Limit.LINK_METADATA_SIZE.value] == 1


def test_consumers_of_links_have_a_limit_of_their_own() -> None:
    cluster = Cluster(targets=["jfk"], settings=NO_METADATA)
    cluster.topic()
    client = cluster.client()
    client.subscribe(subscription="pulsar.repl.jfk", metadata=pairs(2000, **{LEASE_METADATA: "1"}))
    assert client.take("ERROR") == []
    assert cluster.topic().replicators["jfk"].consumer is not None
    client.subscribe(2, subscription="pulsar.repl.jfk", metadata=pairs(LINK_METADATA_SIZE_MAX, **{LEASE_METADATA: "2"}))
    assert [error.error for error in client.take("ERROR")] == [ServerError.MetadataError]


@pytest.mark.parametrize(
    ("properties", "limit"),
    [({"key": "x" * 98}, Limit.PROPERTIES_SIZE), ({"x" * 1025: ""}, Limit.NAME_LENGTH)],
)
@pytest.mark.parametrize("is_partitioned", [True, False])
def test_a_topic_with_too_many_properties_is_not_created(
    properties: dict[str, str], limit: Limit, *, is_partitioned: bool
) -> None:
    cluster = Cluster(settings={"maxPropertiesSize": 100, "maxNameLength": 1024})
    administration, topic = Administration(cluster.environment, cluster.domains, ""), TopicName.parse("new")
    if is_partitioned:
        creation = administration.topics.create_partitioned(topic, 1, properties)
    else:
        creation = administration.topics.create(topic, properties)
    task = cluster.loop.start(creation)
    cluster.settle()
    with pytest.raises(AdminError, match=limit.value) as raised:
        task.result()
    assert (raised.value.status, raised.value.limit) == (HTTPStatus.PRECONDITION_FAILED, limit)
    assert administration.topics.partitions_of(topic) is None


class Counted:
    """Pairs that count accesses."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.looked_at = 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> pb.KeyValue:
        if index >= self.count:
            raise IndexError
        self.looked_at += 1
        return pb.KeyValue(key="k" * (1 + index // 5), value="")


@pytest.mark.parametrize("read", [producer_metadata, consumer_metadata, subscription_properties])
def test_pairs_beyond_the_limit_are_not_looked_at(read: Callable[..., dict[str, str]]) -> None:
    config = BrokerConfig(clusterName="ewr", maxProducerMetadataSize=9, maxConsumerMetadataSize=9, maxPropertiesSize=9)
    links = {} if read is subscription_properties else {"is_link": False}
    few, long, many = Counted(5), Counted(9), Counted(10)
    assert read(few, config, **links) == {"k": ""}
    for pairs in (long, many):
        with pytest.raises(RequestError, match="max size of 9 bytes"):
            read(pairs, config, **links)
    assert [each.looked_at for each in (few, long, many)] == [5, 8, 0]


def test_a_client_that_names_itself_a_link_is_not_searched_for_a_lease_without_end() -> None:
    cluster = Cluster(targets=["jfk"])
    client = cluster.client()
    metadata = [pb.KeyValue(key="", value="")] * (LINK_METADATA_SIZE_MAX + 1)
    client.subscribe(subscription="pulsar.repl.jfk", metadata=[*metadata, pb.KeyValue(key=LEASE_METADATA, value="x")])
    (error,) = client.take("ERROR")
    assert error.error == ServerError.MetadataError


@pytest.mark.parametrize("field", ["metadata", "subscription_properties"])
def test_pairs_that_are_no_text_end_the_connection(field: str) -> None:
    cluster = Cluster()
    client = cluster.client()
    body = pb.CommandSubscribe(
        topic=str(client.topic),
        subscription="s",
        subType=pb.CommandSubscribe.Shared,
        consumer_id=1,
        request_id=1,
    )
    getattr(body, field).add(key="k", value="v")
    wrong = commands.subscribe(body).replace(b"\x12\x01v", b"\x12\x01\xff")
    received = client._connection.receive_gathering(wrong, cluster.clock.monotonic())
    with pytest.raises(RemoteProtocolError, match="not UTF-8"):
        cluster.loop.run_until_complete(run(partial(receive, client.session, received)))
    assert not cluster.topics.loaded[client.topic].subscriptions


async def run(work: Callable[[], object]) -> None:
    work()
