"""Connections share the turns of the event loop: a client with many commands does not delay others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.base.position import EARLIEST, Position
from magnetar.broker.loop import turns
from magnetar.broker.session.server import Server
from magnetar.sim.cluster import TOPIC, Cluster, Shared, entry
from magnetar.wire import commands
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.frame import FrameDecoder
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb

LOOKUPS = 30
ENTRIES = 2000


class HandTransport(asyncio.Transport):
    """A socket with the test as its peer."""

    def __init__(self, ended: list[str], name: str) -> None:
        super().__init__(extra={"peername": (name, 1)})
        self.reading = True
        self.closed = False
        self._ended = ended
        self._name = name
        self._decoder = FrameDecoder()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        for frame in self._decoder.feed(bytes(data)):
            self._ended.append(f"{self._name} {pb.BaseCommand.Type.Name(frame.command.type)}")

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Stage:
    """A broker with connections, whose turns are short."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.server = Server(self.cluster.environment, self.cluster.domains)
        self.heard: list[str] = []

    def connect(self, name: str) -> Any:  # noqa: ANN401 - a ServerProtocol with its transport
        protocol, transport = self.server.protocol(self.server), HandTransport(self.heard, name)
        self.cluster.do(lambda: protocol.connection_made(transport))
        self.cluster.do(lambda: protocol.data_received(commands.connect(client_version="test")))
        self.heard.clear()
        return protocol, transport


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    stage = Stage()
    monkeypatch.setattr(turns, "TURN_ITEMS_MAX", 3)
    return stage


def lookups(count: int = LOOKUPS) -> bytes:
    return b"".join(commands.lookup(request_id=number, topic=str(TOPIC)) for number in range(count))


def test_another_client_is_answered_in_between(stage: Stage) -> None:
    (busy, busy_transport), (other, _) = stage.connect("busy"), stage.connect("other")
    states: list[bool] = []

    def arrive() -> None:
        busy.data_received(lookups())
        other.data_received(lookups(1))
        states.append(busy_transport.reading)

    stage.cluster.do(arrive)
    answers = [each.split()[0] for each in stage.heard]
    assert answers.count("busy") == LOOKUPS
    assert answers.index("other") < LOOKUPS / 2
    assert states == [False], "nothing more is read before all of it is handled"
    assert busy_transport.reading


def test_the_order_of_a_connection_is_kept(stage: Stage) -> None:
    protocol, _ = stage.connect("one")

    def arrive() -> None:
        protocol.data_received(lookups(5) + commands.ping())
        protocol.data_received(commands.close_producer(producer_id=9, request_id=77))

    stage.cluster.do(arrive)
    assert stage.heard[-1] == "one SUCCESS"
    assert sum(each.endswith("LOOKUP_RESPONSE") for each in stage.heard) == 5


def test_acknowledgements_count_of_a_client_that_left_before_they_were_handled(stage: Stage) -> None:
    protocol, transport = stage.connect("leaver")
    publisher = stage.cluster.client()
    publisher.produce()
    publisher.send("a")
    subscribe = pb.CommandSubscribe(
        topic=str(TOPIC),
        subscription="s",
        consumer_id=1,
        request_id=1,
        subType=Shared,
        initialPosition=pb.CommandSubscribe.Earliest,
    )
    stage.cluster.do(lambda: protocol.data_received(commands.subscribe(subscribe)))
    ack = commands.ack(consumer_id=1, message_ids=[message_id(stage.cluster.topic().ledger.last_confirmed_entry)])

    def arrive() -> None:
        protocol.data_received(lookups() + ack)
        transport.close()
        protocol.connection_lost(None)

    stage.cluster.do(arrive)
    subscription = stage.cluster.topic().subscriptions["s"]
    assert subscription.backlog == 0
    assert not subscription.consumers, "the session ended when all was handled"


def test_nothing_more_is_handled_of_a_client_that_broke_the_protocol(stage: Stage) -> None:
    protocol, transport = stage.connect("hostile")

    def arrive() -> None:
        flow, connect = commands.flow(consumer_id=1, message_permits=1), commands.connect(client_version="again")
        protocol.data_received(flow + connect)
        protocol.data_received(lookups(1))

    stage.cluster.do(arrive)
    assert transport.closed
    assert stage.heard == []


def test_a_client_that_left_creates_nothing_any_more(stage: Stage) -> None:
    protocol, transport = stage.connect("leaver")
    producer = commands.producer(topic=str(TOPIC), producer_id=1, request_id=1)

    def arrive() -> None:
        protocol.data_received(lookups() + producer)
        transport.close()
        protocol.connection_lost(None)

    stage.cluster.do(arrive)
    assert TOPIC not in stage.cluster.topics.loaded
    assert not protocol.session.is_open


def test_a_run_of_a_link_is_taken_in_parts(stage: Stage) -> None:
    """A run of a link in one read may have thousands of entries, each with a stamp to parse."""
    protocol, _ = stage.connect("link")
    name = "pulsar.repl.jfk-->ewr"
    producer = commands.producer(topic=str(TOPIC), producer_id=1, request_id=1, producer_name=name)
    stage.cluster.do(lambda: protocol.data_received(producer))
    sends = [commands.send(producer_id=1, sequence_id=each, entry=stamped(each)) for each in range(ENTRIES)]
    stage.heard.clear()
    index = stage.cluster.topic().log.index

    def arrive() -> Position | None:
        protocol.data_received(b"".join(sends))
        return index.last_position("jfk")

    assert EARLIEST < stage.cluster.do(arrive) < Position(5, ENTRIES - 1)
    assert index.last_position("jfk") == Position(5, ENTRIES - 1)
    assert stage.heard == ["link SEND_RECEIPT"] * ENTRIES


def stamped(number: int) -> bytes:
    previous = Position(5, number - 1) if number else EARLIEST
    return stamp(entry("x"), Origin("jfk", Position(5, number), previous, previous))


@pytest.mark.parametrize("leaves", [False, True])
def test_waiting_commands_are_counted_until_handled(stage: Stage, leaves: bool) -> None:
    protocol, _ = stage.connect("busy")
    memory, data = stage.cluster.environment.memory, lookups()
    waiting: list[int] = []

    def arrive() -> None:
        protocol.data_received(data)
        protocol.data_received(data)
        waiting.append(memory.deferred)
        if leaves:
            protocol.connection_lost(None)

    stage.cluster.do(arrive)
    assert waiting == [2 * len(data)]
    assert memory.deferred == 0
