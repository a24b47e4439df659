"""Topic lists may be large: a client gets the next one when it has read the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.limits import Limit
from magnetar.base.memory_share import SMALL_BYTES
from magnetar.base.names import TopicName
from magnetar.metadata.resources import managed_ledger_path
from magnetar.metadata.store import Put
from magnetar.sim.cluster import Client, Cluster
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def client() -> Client:
    """A client of a namespace whose list of topics is large."""
    cluster = Cluster()
    for number in range(100):
        name = TopicName("persistent", "public", "default", f"{number:x<{SMALL_BYTES // 50}}")
        cluster.metadata.commit([Put(managed_ledger_path(name), b"{}")])
    return cluster.client()


def ask(client: Client, *request_ids: int) -> None:
    frames: Iterator[bytes] = (
        commands.encode(pb.CommandGetTopicsOfNamespace(request_id=number, namespace="public/default"))
        for number in request_ids
    )
    client.say(b"".join(frames))


def answers(client: Client) -> list[int]:
    return [answer.request_id for answer in client.take("GET_TOPICS_OF_NAMESPACE_RESPONSE")]


def test_lists_wait_for_a_client_that_does_not_read(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    session, write = client.session, client.session.write

    def write_much(frame: bytes) -> None:
        write(frame)
        session.is_writable = False

    monkeypatch.setattr(session, "write", write_much)
    ask(client, 1, 2, 3)
    assert answers(client) == [1]
    for number in (2, 3):
        client.cluster.do(lambda: session.writable(is_writable=True))
        assert answers(client) == [number]
    client.cluster.do(lambda: session.writable(is_writable=True))
    assert answers(client) == []


def test_a_client_that_leaves_gets_none(client: Client) -> None:
    client.session.is_writable = False
    ask(client, 1)
    client.leave()
    assert not client.session._unmade


def test_a_large_list_is_refused_while_clients_leave_too_much_unread(client: Client) -> None:
    sending = client.cluster.environment.memory.sending
    sending.used = sending.limit // 2
    ask(client, 1)
    assert answers(client) == [1]
    sending.used += 1
    ask(client, 2)
    (error,) = client.take("ERROR")
    message = "Clients leave too many answers unread; try again later (maxSendBuffersSizeInMB)"
    assert (error.request_id, error.error, error.message) == (2, pb.ServiceNotReady, message)
    assert client.cluster.environment.limit_hits.counts()[Limit.SEND_BUFFERS] == 1
