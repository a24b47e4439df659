from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest

from magnetar.sim.virtual.network import Network
from magnetar.sim.virtual.scheduler import MachineLoop, Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator


class Recorder(asyncio.Protocol):
    """Records received data."""

    def __init__(self) -> None:
        self.data = b""
        self.is_lost = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


class Places:
    """Two machines with a connection from one to the other."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.network = Network(Random(1), lambda *_: None)
        self.ewr = MachineLoop(self.scheduler, "ewr.client", self.network)
        self.jfk = MachineLoop(self.scheduler, "jfk", self.network)
        self.client, self.server = Recorder(), Recorder()
        self.jfk.create_task(self.jfk.create_server(lambda: self.server, "jfk", 6650))
        self.let_pass(0.1)
        self.opening = self.ewr.create_task(self.ewr.create_connection(lambda: self.client, "jfk", 6650))

    def let_pass(self, seconds: float) -> None:
        self.scheduler.run_until(self.scheduler.now + seconds)

    def send(self, *pieces: bytes) -> None:
        assert self.client.transport is not None
        for piece in pieces:
            self.client.transport.write(piece)


@pytest.fixture
def places() -> Iterator[Places]:
    made = Places()
    made.let_pass(1.0)
    yield made
    made.scheduler.close()


CUT = frozenset(("ewr", "jfk"))


def test_bytes_keep_their_order_however_long_each_piece_takes(places: Places) -> None:
    pieces = [b"%d," % number for number in range(200)]
    places.send(*pieces)
    places.let_pass(5.0)
    assert places.server.data == b"".join(pieces)


def test_a_partition_holds_back_what_is_under_way_and_loses_nothing(places: Places) -> None:
    places.send(b"before ")
    places.network.partition(CUT)
    places.send(b"during")
    places.let_pass(60.0)
    assert places.server.data == b""
    places.network.heal()
    places.let_pass(1.0)
    assert places.server.data == b"before during"


def test_no_connection_across_a_partition(places: Places) -> None:
    places.network.partition(CUT)
    opening = places.ewr.create_task(places.ewr.create_connection(Recorder, "jfk", 6650))
    places.let_pass(10.0)
    assert isinstance(opening.exception(), TimeoutError)


def test_a_dead_machine_accepts_no_connection(places: Places) -> None:
    places.jfk.die()
    places.network.break_all_of(places.jfk)
    opening = places.ewr.create_task(places.ewr.create_connection(Recorder, "jfk", 6650))
    places.let_pass(10.0)
    assert isinstance(opening.exception(), ConnectionRefusedError)
    assert places.client.is_lost


def test_a_broken_connection_delivers_nothing_more_and_both_ends_notice(places: Places) -> None:
    assert places.network.break_one()
    places.send(b"into the void")
    places.let_pass(10.0)
    assert places.server.data == b""
    assert places.client.is_lost
    assert places.server.is_lost


def test_the_end_of_a_connection_comes_behind_what_was_sent_on_it(places: Places) -> None:
    places.send(b"last words")
    assert places.client.transport is not None
    places.client.transport.close()
    places.let_pass(5.0)
    assert places.server.data == b"last words"
    assert places.server.is_lost


def test_unread_data_waits(places: Places) -> None:
    assert places.server.transport is not None
    places.server.transport.pause_reading()
    places.send(b"one", b"two")
    places.let_pass(5.0)
    assert places.server.data == b""
    places.server.transport.resume_reading()
    places.let_pass(0.1)
    assert places.server.data == b"onetwo"


def test_a_one_way_partition_leaves_the_other_direction_open(places: Places) -> None:
    places.network.partition_one_way("ewr", "jfk")
    places.send(b"there")
    assert places.server.transport is not None
    places.server.transport.write(b"back")
    places.let_pass(60.0)
    assert (places.server.data, places.client.data) == (b"", b"back")
    places.network.heal()
    places.let_pass(1.0)
    assert places.server.data == b"there"


def test_an_isolated_machine_is_cut_off_from_its_own_place(places: Places) -> None:
    places.network.isolate("ewr.client")
    assert places.network.is_cut("ewr.client", "ewr")
    assert not places.network.is_cut("ewr", "jfk")
    places.network.heal()
    assert not places.network.is_cut("ewr.client", "ewr")


def test_a_stopped_machine_keeps_its_connections_and_reads_later(places: Places) -> None:
    places.jfk.stopped_until = places.scheduler.now + 30.0
    places.send(b"waits")
    places.let_pass(29.0)
    assert places.server.data == b""
    places.let_pass(2.0)
    assert places.server.data == b"waits"
    assert not places.server.is_lost


def test_a_client_is_not_told_of_a_connection_that_was_lost_before() -> None:
    places = Places()
    while places.server.transport is None:
        places.let_pass(0.0001)
    (connection,) = places.network.living()
    connection.break_off()
    connection.ends[0].lost()
    places.let_pass(1.0)
    assert isinstance(places.opening.exception(), ConnectionResetError)
    assert places.client.transport is None
    places.scheduler.close()
