"""Fields for brokers and replicators: refused from clients, checked on links."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Any

import pytest

from magnetar.base.errors import AdminError, RemoteProtocolError, RequestError, ServerError
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.administration import Administration
from magnetar.geo.snapshots.markers import decode
from magnetar.sim.cluster import Cluster, entry
from magnetar.sim.pipe import Pipe
from magnetar.wire import commands
from magnetar.wire.entries import markers
from magnetar.wire.entries.entry import assemble
from magnetar.wire.entries.origin import SOURCE_POSITION
from magnetar.wire.links import LIFE_METADATA
from magnetar.wire.proto import pulsar_api_pb2 as pb

RESERVED = ["pulsar.repl.jfk", "pulsar.repl.lga", "pulsar.repl", "pulsar.dedup"]


@pytest.mark.parametrize(
    "fields", [{"replicated_from": "jfk"}, {"replicated_from": ""}, {"marker_type": 10}, {"link_place": "1:1"}]
)
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
    assert source.topic().replicators["jfk"].lag.backlog is not None


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
    administration = Administration(cluster.environment, cluster.domains, "")
    creation = administration.subscriptions.create(cluster.topic().name, name, EARLIEST, replicated=False)
    task = cluster.loop.start(creation)
    cluster.settle()
    with pytest.raises(AdminError, match=f"{name} is reserved") as raised:
        task.result()
    assert raised.value.status == HTTPStatus.PRECONDITION_FAILED


def test_a_link_that_comes_later_carries_all() -> None:
    """A subscription with the link's name would have made it begin at the end."""
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a", "b")
    with pytest.raises(RequestError, match="reserved"):
        cluster.topic().create_subscription("pulsar.repl.jfk", cluster.topic().ledger.last_confirmed_entry)
    assert cluster.topic().cursors.names() == []


LINKS = ["pulsar.repl.{}-->ewr", "magnetar.progress.{}"]


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("source", ["", "a/b", "münchen", "٣", "x\ny", "x" * 256, "ewr"])
def test_a_link_from_what_cannot_be_another_cluster_is_refused(name: str, source: str) -> None:
    cluster = Cluster(targets=["jfk"])
    client = cluster.client()
    client.produce(name=name.format(source))
    assert [error.error for error in client.take("ERROR")] == [ServerError.NotAllowedError]
    assert list(cluster.topic().producers) == []
    client.produce(2, name=name.format("jfk"))  # other links on this connection continue
    assert len(client.take("PRODUCER_SUCCESS")) == 1


@pytest.mark.parametrize("name", LINKS)
def test_a_link_from_a_cluster_that_is_not_known_here_is_let_in(name: str) -> None:
    """Replication in one direction needs no configuration in its target."""
    client = Cluster().client()
    client.produce(name=name.format("x" * 255))
    assert len(client.take("PRODUCER_SUCCESS")) == 1


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("life", ["", "x@", "x@٣", "x@-5", "x@" + "9" * 5000, f"x@{2**63}", "y" * 100 + "@5"])
def test_a_life_that_no_cluster_has_is_refused(name: str, life: str) -> None:
    cluster = Cluster(targets=["jfk"])
    client = cluster.client()
    client.produce(name=name.format("jfk"), metadata=[pb.KeyValue(key=LIFE_METADATA, value=life)])
    assert [error.error for error in client.take("ERROR")] == [ServerError.MetadataError]
    assert cluster.topic().ledger.properties == {}
    assert cluster.loop.problems == []


@pytest.mark.parametrize(("source", "link_place"), [("@@", "-1:-1"), ("1:0", "@@")])
def test_a_stamp_that_is_no_text_is_refused(source: str, link_place: str) -> None:
    cluster = Cluster(targets=["jfk"])
    client = cluster.client()
    client.produce(name="pulsar.repl.jfk-->ewr")
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, replicated_from="jfk", link_place=link_place
    )
    metadata.properties.add(key=SOURCE_POSITION, value=source)
    forged = assemble(metadata.SerializeToString().replace(b"@@", b"\xff\xfe"), b"")
    client.say(commands.send(producer_id=1, sequence_id=0, entry=forged))
    assert [error.error for error in client.take("SEND_ERROR")] == [ServerError.PersistenceError]
    assert not client.disconnected


@pytest.mark.parametrize("kind", [markers.SNAPSHOT_REQUEST, markers.SNAPSHOT_RESPONSE, markers.UPDATE])
def test_a_marker_that_is_no_text_is_ignored(kind: int) -> None:
    payloads = {
        markers.SNAPSHOT_REQUEST: markers.snapshot_request("@@", "jfk"),
        markers.SNAPSHOT_RESPONSE: markers.snapshot_response("@@", "jfk", EARLIEST),
        markers.UPDATE: markers.subscription_update("@@", {"ewr": EARLIEST}),
    }
    forged = payloads[kind].replace(b"@@", b"\xff\xfe")
    with pytest.raises(RemoteProtocolError, match="not UTF-8"):
        decode(kind, forged)
    cluster = Cluster(targets=["jfk"])
    topic = cluster.topic()
    cluster.do(lambda: topic.take_marker("jfk", None, kind, forged))
    assert list(topic.subscriptions) == []


def test_answers_of_strangers_take_no_memory() -> None:
    cluster = Cluster(targets=["jfk"])
    topic = cluster.topic()
    for name in ("jfk", *map(str, range(100))):
        answer = markers.snapshot_response("none", name, EARLIEST, takes_claims=True)
        cluster.do(partial(topic.take_marker, "jfk", None, markers.SNAPSHOT_RESPONSE, answer))
    assert topic.snapshots is not None
    assert topic.snapshots._take_claims == {"jfk"}
