"""What only brokers and replicators may set: refused from clients, checked when it comes over a link."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest

from magnetar.base.errors import AdminError, RequestError, ServerError
from magnetar.base.position import EARLIEST
from magnetar.broker.administration import Administration
from magnetar.sim.cluster import Cluster, entry
from magnetar.sim.pipe import Pipe
from magnetar.wire import commands

RESERVED = ["pulsar.repl.jfk", "pulsar.repl.lga", "pulsar.repl", "pulsar.dedup"]


@pytest.mark.parametrize("fields", [{"replicated_from": "jfk"}, {"replicated_from": ""}, {"marker_type": 10}])
@pytest.mark.parametrize("deduplication", [False, True])
def test_a_producer_cannot_pass_for_a_replicator(fields: dict[str, Any], *, deduplication: bool) -> None:
    source = Cluster(targets=["jfk"], settings={"brokerDeduplicationEnabled": deduplication})
    target = Cluster("jfk", targets=["ewr"], loop=source.loop)
    client = source.client()
    client.produce()
    forged = entry("forged", **fields)
    client.say(commands.send(producer_id=1, sequence_id=0, entry=forged))
    assert [error.error for error in client.take("SEND_ERROR")] == [ServerError.NotAllowedError]
    assert client.receipts() == []
    honest = source.client()
    honest.produce()
    honest.send("a", "b")
    pipe = Pipe(source, target)
    pipe.attach(permits=10)
    pipe.read()
    assert len(pipe.carried) == 2
    assert source.topic().replicators["jfk"].backlog is not None


@pytest.mark.parametrize("name", RESERVED)
def test_a_producer_cannot_create_the_cursor_of_a_link(name: str) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce(initial_subscription_name=name)
    assert [error.error for error in client.take("ERROR")] == [ServerError.ProducerBusy]
    assert name not in cluster.topic().cursors.names()
    client.produce(2)
    assert len(client.take("PRODUCER_SUCCESS")) == 1


@pytest.mark.parametrize("name", RESERVED)
def test_an_operator_cannot_create_the_cursor_of_a_link(name: str) -> None:
    cluster = Cluster()
    cluster.client().produce()
    administration = Administration(cluster.environment, cluster.topics, "")
    creation = administration.create_subscription(cluster.topic().name, name, EARLIEST, replicated=False)
    task = cluster.loop.start(creation)
    cluster.settle()
    with pytest.raises(AdminError, match=f"{name} is reserved") as raised:
        task.result()
    assert raised.value.status == HTTPStatus.PRECONDITION_FAILED


def test_a_link_that_comes_later_carries_all() -> None:
    """A subscription of its name would have had it begin at the end."""
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a", "b")
    with pytest.raises(RequestError, match="reserved"):
        cluster.topic().create_subscription("pulsar.repl.jfk", cluster.topic().ledger.last_confirmed_entry)
    assert cluster.topic().cursors.names() == []
