"""A fake cluster in a thread with the functions that the pipeline needs, and with faults."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeVar

from magnetar.base.errors import MagnetarError, ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.wire import commands
from magnetar.wire.connection import Connection, Role
from magnetar.wire.entries.entry import build_entry, payload_of
from magnetar.wire.entries.origin import Origin, read_origin
from magnetar.wire.message_id import Link, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.wire.frame import Frame

_T = pb.BaseCommand
T = TypeVar("T")
LOOPBACK = "127.0.0.1"


@dataclass
class Cursor:
    """A replication cursor; both numbers index the topic's own entries."""

    acknowledged: int = 0
    next_read: int = 0
    lease: int = -1
    peer: Peer | None = None
    consumer_id: int = 0
    permits: int = 0


@dataclass
class Topic:
    """A log of own entries, and the replicated entries with their arrival times."""

    name: str
    own: list[tuple[Position, bytes]] = field(default_factory=list)
    arrived: list[tuple[Origin, bytes, float]] = field(default_factory=list)
    last: dict[str, Position] = field(default_factory=dict)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    producers: dict[str, tuple[int, Peer, int]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)


class Peer:
    """One connection."""

    def __init__(self, cluster: FakeCluster, writer: asyncio.StreamWriter) -> None:
        self.cluster = cluster
        self.wire = Connection(Role.BROKER, now=time.monotonic())
        self.writer = writer
        self.consumers: dict[int, tuple[Topic, Cursor]] = {}
        self.producers: dict[int, tuple[Topic, str]] = {}

    def send(self, frame: bytes) -> None:
        if not self.writer.is_closing():
            self.writer.write(frame)

    def handle(self, frame: Frame) -> None:  # noqa: C901 - a table
        command = frame.command
        match command.type:
            case _T.CONNECT:
                self.wire.connected()
                self.send(
                    commands.connected(server_version="Magnetar fake", protocol_version=20, max_message_size=5 << 20)
                )
            case _T.LOOKUP:
                self.send(
                    commands.lookup_response(
                        request_id=command.lookupTopic.request_id, broker_service_url=self.cluster.broker_url
                    )
                )
            case _T.GET_TOPICS_OF_NAMESPACE:
                self._topics(command.getTopicsOfNamespace)
            case _T.SUBSCRIBE:
                self._subscribe(command.subscribe)
            case _T.SEEK:
                self._seek(command.seek)
            case _T.FLOW:
                self._flow(command.flow)
            case _T.ACK:
                self._ack(command.ack)
            case _T.CLOSE_CONSUMER:
                self._drop_consumer(command.close_consumer.consumer_id)
                self.send(commands.success(request_id=command.close_consumer.request_id))
            case _T.PRODUCER:
                self._producer(command.producer)
            case _T.SEND:
                self._append(command.send, frame.body)
            case _T.CLOSE_PRODUCER:
                self.producers.pop(command.close_producer.producer_id, None)
                self.send(commands.success(request_id=command.close_producer.request_id))

    def gone(self) -> None:
        for number in list(self.consumers):
            self._drop_consumer(number)

    def _drop_consumer(self, number: int) -> None:
        _, cursor = self.consumers.pop(number, (None, None))
        if cursor is not None and cursor.peer is self and cursor.consumer_id == number:
            cursor.peer = None

    def _topics(self, question: pb.CommandGetTopicsOfNamespace) -> None:
        names = sorted(name for name in self.cluster.topics if f"//{question.namespace}/" in name)
        digest = f"{zlib.crc32(','.join(names).encode()):x}"
        changed = digest != question.topics_hash
        self.send(
            commands.get_topics_of_namespace_response(
                request_id=question.request_id, topics=names if changed else [], topics_hash=digest, changed=changed
            )
        )

    def _subscribe(self, subscribe: pb.CommandSubscribe) -> None:
        topic = self.cluster.topic(subscribe.topic)
        target = subscribe.subscription.removeprefix("pulsar.repl.")
        lease = int({pair.key: pair.value for pair in subscribe.metadata}["magnetar.lease"])
        cursor = topic.cursors.setdefault(target, Cursor())
        if cursor.peer is not None and lease < cursor.lease:
            text = f"held by lease {cursor.lease}"
            self.send(commands.link_held(request_id=subscribe.request_id, message=text, pipeline=None))
            return
        if cursor.peer is not None:
            cursor.peer.consumers.pop(cursor.consumer_id, None)
            cursor.peer.send(commands.close_consumer(consumer_id=cursor.consumer_id))
        cursor.peer, cursor.consumer_id, cursor.lease, cursor.permits = self, subscribe.consumer_id, lease, 0
        cursor.next_read = cursor.acknowledged
        self.consumers[subscribe.consumer_id] = (topic, cursor)
        self.send(commands.success(request_id=subscribe.request_id))

    def _seek(self, seek: pb.CommandSeek) -> None:
        topic, cursor = self.consumers[seek.consumer_id]
        position = position_of(seek.message_id)
        cursor.acknowledged = cursor.next_read = sum(held <= position for held, _ in topic.own)
        self.send(commands.success(request_id=seek.request_id))

    def _flow(self, flow: pb.CommandFlow) -> None:
        topic, cursor = self.consumers.get(flow.consumer_id, (None, None))
        if topic is not None and cursor is not None:
            cursor.permits += flow.messagePermits
            dispatch(topic, cursor)

    def _ack(self, ack: pb.CommandAck) -> None:
        topic, cursor = self.consumers.get(ack.consumer_id, (None, None))
        if topic is not None and cursor is not None:
            position = position_of(ack.message_id[0])
            cursor.acknowledged = max(cursor.acknowledged, position.entry_id + 1)

    def _producer(self, producer: pb.CommandProducer) -> None:
        topic = self.cluster.topic(producer.topic)
        name = producer.producer_name
        source = name.removeprefix("pulsar.repl.").partition("-->")[0]
        held = topic.producers.get(name)
        if producer.topic in self.cluster.refusing or (held is not None and producer.epoch < held[0]):
            text = "refused on demand" if producer.topic in self.cluster.refusing else f"held by lease {held}"
            self.send(commands.error(request_id=producer.request_id, code=ServerError.ProducerBusy, message=text))
            return
        if held is not None and held[1].producers.pop(held[2], None) is not None:
            held[1].send(commands.close_producer(producer_id=held[2]))
        topic.producers[name] = (producer.epoch, self, producer.producer_id)
        topic.refused.discard(source)
        self.producers[producer.producer_id] = (topic, source)
        self.send(
            commands.producer_success(
                request_id=producer.request_id, producer_name=name, last_origin=topic.last.get(source)
            )
        )

    def _append(self, send: pb.CommandSend, entry: bytes) -> None:
        topic, source = self.producers.get(send.producer_id, (None, ""))
        if topic is None or topic.name in self.cluster.mute:
            return
        origin = read_origin(entry)
        assert origin is not None
        last = topic.last.get(source, EARLIEST)
        if source in topic.refused or (origin.position > last and origin.previous > last and not origin.link_start):
            topic.refused.add(source)
            text = f"gap: previous={origin.previous} last={last}"
            code = ServerError.PersistenceError
            number, sequence_id = send.producer_id, send.sequence_id
            self.send(
                commands.send_error(producer_id=number, sequence_id=sequence_id, code=code, message=text, is_gap=True)
            )
            return
        position = EARLIEST
        if origin.position > last:
            position = Position(1_000, len(topic.arrived))
            topic.arrived.append((origin, bytes(payload_of(entry)), time.time()))
            topic.last[source] = origin.position
        else:
            self.cluster.duplicates += 1
        receipt = commands.send_receipt(producer_id=send.producer_id, sequence_id=send.sequence_id, position=position)
        self.send(receipt)


def dispatch(topic: Topic, cursor: Cursor) -> None:
    """Send entries within the cursor's permits."""
    while cursor.peer is not None and cursor.permits and cursor.next_read < len(topic.own):
        position, entry = topic.own[cursor.next_read]
        previous = topic.own[cursor.next_read - 1][0] if cursor.next_read else EARLIEST
        link = Link(previous, previous, link_start=False)
        cursor.peer.send(
            commands.message_on_link(consumer_id=cursor.consumer_id, position=position, entry=entry, link=link)
        )
        cursor.next_read += 1
        cursor.permits -= 1


class FakeCluster:
    """The broker port and admin port of one cluster."""

    def __init__(self, name: str, peers: tuple[str, ...]) -> None:
        self.name = name
        self.peers = peers
        self.topics: dict[str, Topic] = {}
        self.refusing: set[str] = set()
        """Topics that refuse producers."""
        self.mute: set[str] = set()
        """Topics without receipts."""
        self.duplicates = 0
        self.broker_port = self.admin_port = 0
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._live: set[Peer] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"cluster {name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def broker_url(self) -> str:
        return f"pulsar://{LOOPBACK}:{self.broker_port}"

    @property
    def admin_url(self) -> str:
        return f"http://{LOOPBACK}:{self.admin_port}"

    def start(self) -> None:
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    def stop(self) -> None:
        """Close all connections and ports; logs and cursors stay."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()

    def call(self, function: Callable[[], T]) -> T:
        """Run ``function`` in the cluster's thread."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def topic(self, name: str) -> Topic:
        return self.topics.setdefault(name, Topic(name))

    def publish(self, topic: str, payloads: list[bytes]) -> None:
        self.call(lambda: self._publish(topic, payloads))

    def payloads(self, topic: str) -> list[bytes]:
        """Return the payloads of replicated entries."""
        return self.call(lambda: [payload for _, payload, _ in self.topic(topic).arrived])

    def _publish(self, topic_name: str, payloads: list[bytes]) -> None:
        topic = self.topic(topic_name)
        for payload in payloads:
            position = Position(1, len(topic.own))
            metadata = pb.MessageMetadata(
                producer_name="p", sequence_id=position.entry_id, publish_time=int(time.time() * 1000)
            )
            topic.own.append((position, build_entry(metadata, payload)))
        for cursor in topic.cursors.values():
            dispatch(topic, cursor)

    async def _start(self) -> None:
        broker = await asyncio.start_server(self._serve, LOOPBACK, self.broker_port)
        admin = await asyncio.start_server(self._answer, LOOPBACK, self.admin_port)
        self._servers = [broker, admin]
        self.broker_port, self.admin_port = (server.sockets[0].getsockname()[1] for server in self._servers)

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for peer in list(self._live):
            peer.writer.transport.abort()
        await asyncio.sleep(0.05)

    async def _end(self) -> None:
        """Close the server completely, so that nothing is left for the garbage collector."""
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await asyncio.sleep(0.05)  # transports close in a later turn

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(self, writer)
        self._live.add(peer)
        try:
            with contextlib.suppress(OSError, MagnetarError):
                while data := await reader.read(1 << 18):
                    for frame in peer.wire.receive(data, time.monotonic()):
                        peer.handle(frame)
                    peer.send(peer.wire.take_output())
        finally:
            self._live.discard(peer)
            peer.gone()
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    request = (await reader.readuntil(b"\r\n\r\n")).decode()
                    value = self._resource(request.split()[1].partition("?")[0].removeprefix("/admin/v2/"))
                    body = json.dumps(value if value is not None else {"reason": "Not found"}).encode()
                    status = "200 OK" if value is not None else "404 Not Found"
                    fields = f"Server: Magnetar fake\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
                    head = f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n"
                    writer.write(head.encode() + body)
        finally:
            writer.close()

    def _resource(self, path: str) -> object:
        if path.endswith("/stats"):
            return {"replication": {}}
        return {
            "brokers/version": "fake",
            "tenants": ["public"],
            "namespaces/public": ["public/default"],
            "namespaces/public/default/replication": [self.name, *self.peers],
            f"clusters/{self.name}": {"brokerServiceUrl": self.broker_url, "serviceUrl": self.admin_url},
            "persistent/public/default": sorted(self.topics),
        }.get(path)
