"""A loop without a clock, and a broker behind it that grants everything."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.position import Position
from magnetar.pipeline.connections.loop import Dialled, Loop, Timer
from magnetar.wire import commands
from magnetar.wire.frame import Frame, FrameDecoder
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable


class HandLoop(Loop):
    """Calls are made by ``run``; timers that are not due soon are made by ``pass_time``."""

    def __init__(self, *brokers: HandBroker) -> None:
        self._at = 0.0
        self._calls: deque[Callable[[], None]] = deque()
        self._due: list[tuple[float, Timer]] = []
        self._brokers = {broker.url: broker for broker in brokers}

    @property
    def now(self) -> float:
        return self._at

    def watch(self, descriptor: int, on_ready: Callable[[], None], *, write: bool = False) -> None:
        del write
        for broker in self._brokers.values():
            if broker.connection is not None and broker.connection.fileno() == descriptor:
                broker.on_ready = on_ready

    def unwatch(self, descriptor: int) -> None:
        del descriptor

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        if when < math.inf:
            self._due.append((when, timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._calls.append(callback)

    call_from_thread = call_soon

    def dial(self, url: str, then: Callable[[Dialled | None, str], None]) -> None:
        broker = self._brokers.get(url)
        if broker is None:
            self.call_soon(lambda: then(None, f"{url}: nobody is there"))
        else:
            self.call_soon(lambda: then(broker.connect(), ""))

    def run(self) -> None:
        """Do all that can be done now."""
        busy = True
        while busy:
            busy = False
            while self._calls:
                self._calls.popleft()()
                busy = True
            for broker in self._brokers.values():
                busy |= broker.turn()

    def pass_time(self, seconds: float) -> None:
        self._at += seconds
        due = [timer for when, timer in self._due if when <= self._at]
        self._due = [(when, timer) for when, timer in self._due if when > self._at]
        for timer in due:
            timer.fire()
        self.run()


class HandConnection:
    """One end of a connection to a ``HandBroker``; see Dialled."""

    peer_is_magnetar = True
    receipts_name_source = False
    next_tick_at = math.inf
    want_write = False

    def __init__(self, broker: HandBroker, number: int) -> None:
        self.peer_life = broker.life
        self.peer_max_message_size = broker.max_message_size
        self._broker = broker
        self._number = number

    def fileno(self) -> int:
        return self._number

    def send(self, frame: bytes) -> None:
        self._broker.take(frame)

    def flush(self) -> None:
        pass

    def pump(self, timeout_s: float) -> list[Frame]:
        del timeout_s
        if self._broker.connection is not self:
            message = "connection lost"
            raise RemoteProtocolError(message)
        frames, self._broker.unread = self._broker.unread, []
        return frames

    def close(self) -> None:
        if self._broker.connection is self:
            self._broker.connection = None


class HandBroker:
    """Grants lookups, producers and consumers, and receipts every entry; notes what came."""

    def __init__(self, url: str, max_message_size: int = 5 << 20) -> None:
        self.url = url
        self.max_message_size = max_message_size
        self.connection: HandConnection | None = None
        self.connections = 0
        self.entries: dict[int, list[bytes]] = {}
        self.topics: dict[int, str] = {}
        self.life = ""
        self.metadata: list[dict[str, str]] = []
        """Metadata of the producers, in the order in which they came."""
        self.rival = ""
        """The other pipeline that holds all links; empty where none does."""
        self.newer_lease = False
        """Whether the next lease holds all links."""
        self.namespaces: dict[str, list[str]] = {}
        self.subscribed: list[pb.CommandSubscribe] = []
        self.flows: list[int] = []
        """Permits of each FLOW."""
        self.unread: list[Frame] = []
        self.on_ready: Callable[[], None] | None = None
        self._decoder = FrameDecoder(frame_size_max=1 << 30)

    def connect(self) -> HandConnection:
        self.connections += 1
        self.connection = HandConnection(self, 1000 * len(self.url) + self.connections)
        self.unread = []
        return self.connection

    def drop(self) -> None:
        """End the connection."""
        self.connection = None
        if self.on_ready is not None:
            self.on_ready()

    def turn(self) -> bool:
        if self.unread and self.on_ready is not None:
            self.on_ready()
            return True
        return False

    def take(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            self._answer(frame)

    def say(self, data: bytes) -> None:
        self.unread += FrameDecoder(frame_size_max=1 << 30).feed(data)

    def _answer(self, frame: Frame) -> None:
        command = frame.command
        match command.type:
            case pb.BaseCommand.LOOKUP:
                request_id = command.lookupTopic.request_id
                self.say(commands.lookup_response(request_id=request_id, broker_service_url=self.url))
            case pb.BaseCommand.PRODUCER:
                asked = command.producer
                self.topics[asked.producer_id] = asked.topic
                self.metadata.append({pair.key: pair.value for pair in asked.metadata})
                self.say(commands.producer_success(request_id=asked.request_id, producer_name=asked.producer_name))
            case pb.BaseCommand.SUBSCRIBE:
                self.subscribed.append(command.subscribe)
                request_id = command.subscribe.request_id
                if self.rival or self.newer_lease:
                    self.say(commands.link_held(request_id=request_id, message="held", pipeline=self.rival or None))
                else:
                    self.say(commands.success(request_id=request_id))
            case pb.BaseCommand.GET_TOPICS_OF_NAMESPACE:
                asked_for = command.getTopicsOfNamespace
                topics = self.namespaces.get(asked_for.namespace, [])
                self.say(
                    commands.get_topics_of_namespace_response(
                        request_id=asked_for.request_id, topics=topics, topics_hash="unchanged"
                    )
                )
            case pb.BaseCommand.SEND:
                sent = command.send
                self.entries.setdefault(sent.producer_id, []).append(frame.body)
                place = Position(1, len(self.entries[sent.producer_id]) - 1)
                self.say(
                    commands.send_receipt(producer_id=sent.producer_id, sequence_id=sent.sequence_id, position=place)
                )
            case pb.BaseCommand.FLOW:
                self.flows.append(command.flow.messagePermits)
            case pb.BaseCommand.CLOSE_PRODUCER:
                self.say(commands.success(request_id=command.close_producer.request_id))
            case pb.BaseCommand.CLOSE_CONSUMER:
                self.say(commands.success(request_id=command.close_consumer.request_id))
            case _:
                pass
