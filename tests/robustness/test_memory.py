"""Clients that try to exhaust a broker's memory: it stays within its limit, and other clients continue."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.broker import Broker
from tests.kit.raw import RawConnection, command, entry, name_of, part_of
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEBIBYTE = 1 << 20
LIMIT_MB = 320
SMALL_LIMIT_MB = 152  # the least that a broker with so small a cache accepts, so that few topics use it up
SMALL_CACHE_MB = 2
CACHE_MB = 16
LARGE = bytes(5 * MEBIBYTE)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with little memory."""
    directory: Path = tmp_path_factory.mktemp("memory")
    settings = {"memoryLimitMB": LIMIT_MB, "managedLedgerCacheSizeMB": CACHE_MB}
    with Broker(directory, settings=settings) as running:
        yield running


@pytest.fixture
def small(broker: Broker) -> Iterator[RawConnection]:
    """A client that publishes small messages."""
    with RawConnection.connected(broker.service_url) as connection:
        connection.create_producer("persistent://public/default/small")
        yield connection


def frame_of(sequence_id: int, payload: bytes) -> bytes:
    send = command("SEND", producer_id=1, sequence_id=sequence_id, num_messages=1)
    return encode_command(send, entry(payload, sequence_id))


def flood(connection: RawConnection, stop: threading.Event) -> None:
    """Send large messages as fast as the broker accepts them, without reading receipts."""
    frame = frame_of(0, LARGE)
    with contextlib.suppress(OSError):  # shut down at the end
        while not stop.is_set():
            connection.socket.sendall(frame)


def test_a_flood_of_large_messages_stays_within_the_memory_and_gives_it_back(
    broker: Broker, small: RawConnection
) -> None:
    before, peak = broker.resident_bytes(), 0
    stop = threading.Event()
    with contextlib.ExitStack() as open_ones:
        connections = [open_ones.enter_context(RawConnection.connected(broker.service_url)) for _ in range(6)]
        for number, connection in enumerate(connections):
            connection.create_producer(f"persistent://public/default/flood-{number}")
            connection.socket.settimeout(None)
        floods = [threading.Thread(target=flood, args=(each, stop)) for each in connections]
        for thread in floods:
            thread.start()
        for number in range(100):
            small.publish(b"a small one", sequence_id=number)
            peak = max(peak, broker.resident_bytes())
        stop.set()
        for connection in connections:
            connection.socket.shutdown(socket.SHUT_RDWR)
        for thread in floods:
            thread.join()
    assert peak < LIMIT_MB * MEBIBYTE
    kept = before + (CACHE_MB + 48) * MEBIBYTE
    wait_until(lambda: broker.resident_bytes() < kept, what="memory is given back")


def test_consumers_that_do_not_read_stay_within_the_memory_and_hold_up_nobody(
    broker: Broker, small: RawConnection
) -> None:
    topic, before, peak = "persistent://public/default/backlog", broker.resident_bytes(), 0
    with RawConnection.connected(broker.service_url) as publisher:
        publisher.create_producer(topic)
        for number in range(10):
            publisher.publish(LARGE, sequence_id=number)
    with contextlib.ExitStack() as open_ones:
        for number in range(60):
            connection = open_ones.enter_context(RawConnection.connected(broker.service_url))
            connection.subscribe(topic, f"silent-{number}")
            connection.flow(1000)
        for number in range(100):
            small.publish(b"a small one", sequence_id=number)
            peak = max(peak, broker.resident_bytes())
        assert peak < LIMIT_MB * MEBIBYTE
        with RawConnection.connected(broker.service_url) as consumer:
            consumer.subscribe(topic, "reading")
            consumer.flow(10)
            for _ in range(10):
                consumer.expect("MESSAGE")
    kept = before + (CACHE_MB + 48) * MEBIBYTE
    wait_until(lambda: broker.resident_bytes() < kept, what="memory is given back")


def test_clients_that_stop_in_large_frames_hold_little_and_hold_up_nobody(broker: Broker, small: RawConnection) -> None:
    frame, before = frame_of(0, LARGE), broker.resident_bytes()
    with contextlib.ExitStack() as open_ones:
        for _ in range(60):
            connection = open_ones.enter_context(RawConnection.connected(broker.service_url))
            connection.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError, ConnectionError):  # the first of them are soon closed
                while connection.socket.send(frame[: 4 * MEBIBYTE]):
                    pass
        for number in range(200):
            small.publish(b"a small one", sequence_id=number)
        assert broker.resident_bytes() - before < 64 * MEBIBYTE
        with RawConnection.connected(broker.service_url) as large:
            large.create_producer("persistent://public/default/large")
            large.publish(LARGE)


def is_accepted(connection: RawConnection, number: int) -> bool:
    """Subscribe to a topic; return False if the memory is used up."""
    fields = {"topic": f"persistent://public/default/many-{number}", "consumer_id": number}
    answer = connection.decision(
        "SUBSCRIBE", "SUCCESS", "ERROR", subscription="s", subType=pb.CommandSubscribe.Shared, **fields
    )
    if name_of(answer) == "SUCCESS":
        return True
    assert "The memory of the broker is used up (memoryLimitMB)" in part_of(answer).message
    return False


@pytest.mark.long
def test_after_clients_that_used_up_the_memory_with_topics_others_are_accepted(tmp_path: Path) -> None:
    limits = {"memoryLimitMB": SMALL_LIMIT_MB, "managedLedgerCacheSizeMB": SMALL_CACHE_MB}
    settings = {**limits, "brokerUnloadInactiveTopicsFrequencySeconds": 1}
    with Broker(tmp_path, settings=settings) as broker:
        with RawConnection.connected(broker.service_url) as connection:
            topics = next(number for number in itertools.count() if not is_accepted(connection, number))
        assert topics > 1_000
        assert broker.resident_bytes() > 0.85 * SMALL_LIMIT_MB * MEBIBYTE
        with RawConnection.connected(broker.service_url) as connection:
            wait_until(lambda: is_accepted(connection, topics), what="another client is accepted")
