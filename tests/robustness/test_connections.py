"""Peers that read slowly, stop in the middle, stay silent, or come in large numbers."""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import time
from functools import partial
from typing import TYPE_CHECKING

import pulsar
import pytest

from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.broker import Broker
from tests.kit.messages import connect, publish, receive_data
from tests.kit.raw import RawConnection, command
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.robustness.conftest import Bystander

MEBIBYTE = 1 << 20
GROWTH_MAX = 128 * MEBIBYTE
"""Maximum growth of the broker in bytes while five peers do not read: read-ahead, but not their 800 MiB."""


@pytest.fixture(scope="module")
def backlog_topic(broker: Broker) -> str:
    """A topic of 160 MiB."""
    topic = f"persistent://public/default/backlog-{secrets.token_hex(4)}"
    client = connect(broker.service_url)
    publish(client, topic, [bytes(MEBIBYTE)] * 160)
    client.close()
    return topic


def test_slow_reader_costs_no_memory(broker: Broker, bystander: Bystander, backlog_topic: str) -> None:
    """Consumers with unlimited permits do not read from their sockets."""
    before = broker.resident_bytes()
    with contextlib.ExitStack() as open_ones:
        for number in range(5):
            connection = open_ones.enter_context(RawConnection.connected(broker.service_url))
            connection.subscribe(backlog_topic, f"slow-{number}")
            connection.flow(1_000_000)
        for _ in range(200):
            assert bystander.goes_on()
        assert broker.resident_bytes() - before < GROWTH_MAX


def test_slow_reader_does_not_hold_up_its_neighbour(broker: Broker, backlog_topic: str) -> None:
    with RawConnection.connected(broker.service_url) as slow:
        slow.subscribe(backlog_topic, "shared")
        slow.flow(1_000_000)
        client = connect(broker.service_url)
        reader = client.subscribe(backlog_topic, "other")
        publish(client, backlog_topic, [b"new"])
        assert receive_data(reader, 1) == [b"new"]
        client.close()


def test_slow_reader_gets_everything_when_it_reads_again(broker: Broker, backlog_topic: str) -> None:
    with RawConnection.connected(broker.service_url) as slow, RawConnection.connected(broker.service_url) as other:
        slow.subscribe(backlog_topic, "resumes", subType=pb.CommandSubscribe.Exclusive)
        slow.flow(1_000)
        assert all(other.is_answering() for _ in range(50))
        entries = [slow.expect("MESSAGE").message_id.entryId for _ in range(160)]
    assert entries == list(range(160))


def test_peer_that_does_not_read_its_answers(broker: Broker, bystander: Bystander) -> None:
    """Many requests without reading responses: the broker stops reading or closes; it does not buffer responses."""
    before = broker.resident_bytes()
    lookup = encode_command(command("LOOKUP", topic="persistent://public/default/t" + "x" * 200, request_id=1))
    with RawConnection.connected(broker.service_url) as flood:
        flood.socket.settimeout(2)
        try:
            for _ in range(1_500):
                flood.socket.sendall(lookup * 500)
        except (TimeoutError, ConnectionError):
            pass
        assert bystander.goes_on()
        assert broker.resident_bytes() - before < GROWTH_MAX


def test_half_closed_socket_is_closed_and_frees_what_it_held(broker: Broker, topic: str) -> None:
    exclusive = pb.CommandSubscribe.Exclusive
    with RawConnection.connected(broker.service_url) as half, RawConnection.connected(broker.service_url) as other:
        half.subscribe(topic, "s", subType=exclusive)
        half.create_producer(topic, producer_name="p")
        half.socket.shutdown(socket.SHUT_WR)
        assert half.is_closed_by_peer()
        other.subscribe(topic, "s", subType=exclusive)
        assert other.create_producer(topic, producer_name="p").producer_name == "p"


def test_half_a_frame_and_then_silence_for_ever(broker: Broker, bystander: Bystander) -> None:
    whole = encode_command(command("LOOKUP", topic="persistent://public/default/t", request_id=1))
    with RawConnection.connected(broker.service_url) as connection:
        connection.socket.sendall(whole[: len(whole) // 2])
        assert bystander.goes_on()
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.is_closed_by_peer()


def test_frames_byte_by_byte(broker: Broker, topic: str) -> None:
    with RawConnection(broker.service_url) as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in (
            command("CONNECT", client_version="dribble", protocol_version=20),
            command("PRODUCER", topic=topic, producer_id=1, request_id=7),
        ):
            for byte in encode_command(part):
                connection.socket.sendall(bytes([byte]))
        assert connection.expect("PRODUCER_SUCCESS").request_id == 7


def test_commands_in_one_packet_with_connect(broker: Broker, topic: str) -> None:
    """A client that does not wait for CONNECTED is served in every division of its stream into packets."""
    parts = (
        command("CONNECT", client_version="hasty", protocol_version=20),
        command("PRODUCER", topic=topic, producer_id=1, request_id=7),
        command("PRODUCER", topic=topic, producer_id=2, request_id=8),
    )
    with RawConnection(broker.service_url) as connection:
        connection.socket.sendall(b"".join(encode_command(part) for part in parts))
        for request_id in (7, 8):
            assert connection.expect("PRODUCER_SUCCESS").request_id == request_id


def test_crowd_that_vanishes(broker: Broker, bystander: Bystander) -> None:
    """Connections are reset during the responses to their requests."""
    at_once_reset = struct.pack("ii", 1, 0)
    for number in range(300):
        connection = RawConnection(broker.service_url)
        connection.send("CONNECT", client_version="crowd", protocol_version=20)
        connection.send(
            "PRODUCER", topic=f"persistent://public/default/crowd-{number % 5}", producer_id=1, request_id=1
        )
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once_reset)
        connection.close()
    assert bystander.goes_on()
    for number in range(5):
        name = f"persistent://public/default/crowd-{number}"
        publish_probe(broker, name)
        wait_until(partial(has_no_publishers, broker, name))


def has_no_publishers(broker: Broker, topic: str) -> bool:
    """Return whether the topic has no producers."""
    return bool(broker.rest.stats(topic)["publishers"] == [])


def publish_probe(broker: Broker, topic: str) -> None:
    """Check that the topic exists and accepts a message."""
    client = connect(broker.service_url)
    publish(client, topic, [b"probe"])
    client.close()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory: Path = tmp_path_factory.mktemp("impatient")
    with Broker(directory, settings={"keepAliveIntervalSeconds": 1}) as broker:
        yield broker


def test_connection_without_a_handshake_is_closed(impatient: Broker) -> None:
    opened = time.monotonic()
    with RawConnection(impatient.service_url) as connection:
        assert connection.is_closed_by_peer()
    assert time.monotonic() - opened < 10


def test_peer_that_answers_pings_stays(impatient: Broker) -> None:
    with RawConnection.connected(impatient.service_url) as connection:
        assert not connection.is_closed_by_peer(within_s=4)
        assert connection.is_answering()


def test_peer_that_answers_no_ping_is_closed_and_frees_what_it_held(impatient: Broker, topic: str) -> None:
    with RawConnection.connected(impatient.service_url) as dead:
        dead.subscribe(topic, "s", subType=pb.CommandSubscribe.Exclusive)
        client = connect(impatient.service_url)
        wait_until(lambda: subscribes(client, topic), timeout_s=15, interval_s=0.2)
        client.close()


def subscribes(client: pulsar.Client, topic: str) -> bool:
    """Return whether an Exclusive consumer can subscribe."""
    try:
        client.subscribe(topic, "s")
    except pulsar.ConsumerBusy:
        return False
    return True
