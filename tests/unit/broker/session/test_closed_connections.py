"""A closed connection is freed by reference counting; the garbage collector would free thousands in one turn."""

from __future__ import annotations

import weakref
from functools import partial

import pytest

from magnetar.broker.session.server import Server, ServerProtocol
from magnetar.sim.cluster import Cluster
from magnetar.wire import commands
from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.raw import command, entry

TOPIC = "persistent://public/default/orders"
CONNECT = commands.connect(client_version="test")
PRODUCER = encode_command(command("PRODUCER", topic=TOPIC, producer_id=1, request_id=1))
SEND = encode_command(command("SEND", producer_id=1, sequence_id=0), entry(b"x"))
SUBSCRIBE = encode_command(
    command("SUBSCRIBE", topic=TOPIC, subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=2)
)
FLOW = encode_command(command("FLOW", consumer_id=1, messagePermits=10))
GARBAGE = b"\xff" * 20


class Socket:
    """A transport that accepts everything."""

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return ("10.0.0.1", 40_000) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None:
        """Ignore the limit."""

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        """Ignore the bytes."""

    def close(self) -> None:
        """Do nothing: the test reports the loss of the connection."""

    abort = pause_reading = resume_reading = close


@pytest.mark.usefixtures("left_to_the_collector")
@pytest.mark.parametrize(
    "said",
    [
        [],
        [GARBAGE],
        [CONNECT],
        [CONNECT, GARBAGE],
        [CONNECT, PRODUCER],
        [CONNECT, PRODUCER, SEND],
        [CONNECT, SUBSCRIBE],
        [CONNECT, SUBSCRIBE, FLOW],
        [CONNECT, PRODUCER, SUBSCRIBE, FLOW, SEND],
    ],
    ids=["silent", "garbage", "connect", "garbage later", "producer", "sent", "consumer", "permits", "received"],
)
def test_a_closed_connection_is_freed_at_once(said: list[bytes]) -> None:
    cluster = Cluster()
    server = Server(cluster.environment, cluster.domains)
    protocol = ServerProtocol(server)
    protocol.connection_made(Socket())  # type: ignore[arg-type]
    for data in said:
        cluster.do(partial(protocol.data_received, data))
        cluster.settle()
    session = weakref.ref(protocol.session)
    cluster.do(partial(protocol.connection_lost, None))
    cluster.settle()
    left = weakref.ref(protocol)
    del protocol
    assert (left(), session()) == (None, None)
