"""Each limit counts its hits, and every limit is documented."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from magnetar.base.errors import AdminError, RemoteProtocolError, ServerError
from magnetar.base.limits import (
    BATCH_MESSAGES_MAX,
    BATCHED_MESSAGE_SIZE_MIN,
    ENTRY_METADATA_PADDING,
    HANDSHAKE_FRAME_SIZE_MAX,
    OPENED_BATCH_MESSAGES_MAX,
    REPLICATION_CLUSTERS_MAX,
    UNREAD_BATCH_MESSAGES_MAX,
    Limit,
)
from magnetar.base.logs.log_limit import LINES_MAX, LogLimit
from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.administration import Administration
from magnetar.broker.replication.outbound import marker_queue
from magnetar.broker.replication.outbound.marker_queue import QueuedMarker
from magnetar.broker.replication.progress import incoming_progress
from magnetar.broker.resources.connection_counts import ConnectionCounts
from magnetar.broker.resources.limit_hits import LimitHits
from magnetar.broker.resources.memory import READ_BYTES, READ_BYTES_MIN
from magnetar.broker.session import session as broker_session
from magnetar.broker.session.server import Server, ServerProtocol
from magnetar.broker.settings.config import BrokerConfig
from magnetar.geo.progress.codec import encode_markers
from magnetar.geo.progress.state import SubscriptionProgress
from magnetar.sim.cluster import Client, Cluster, Shared, entry
from magnetar.wire import commands
from magnetar.wire.entries import markers
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.frame import FrameDecoder, frame_opening
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "limits.md"


class Socket:
    """A transport that records its use by the broker."""

    def __init__(self) -> None:
        self.closed = False
        self.unread = 0
        self.is_read = True
        self.written: list[bytes] = []

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return ("10.0.0.1", 40_000) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def set_write_buffer_limits(self, high: int) -> None:
        """Record the limit."""

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    abort = close


def connect(server: Server) -> tuple[ServerProtocol, Socket]:
    protocol, socket = ServerProtocol(server), Socket()
    protocol.connection_made(socket)  # type: ignore[arg-type]
    return protocol, socket


def hits(cluster: Cluster) -> dict[str, int]:
    return {name: count for name, count in cluster.environment.limit_hits.counts().items() if count}


def test_every_limit_is_known_from_the_start() -> None:
    names = {limit.value for limit in Limit}
    assert LimitHits().counts() == dict.fromkeys(names - {Limit.LOG_LINES.value}, 0)
    assert LimitHits(LogLimit(lambda: 0.0)).counts() == dict.fromkeys(names, 0)


def test_dropped_log_lines_count() -> None:
    log_limit = LogLimit(lambda: 0.0)
    for _ in range(LINES_MAX):
        log_limit(None, "warning", {"event": "flood"})
    for _ in range(3):
        with pytest.raises(structlog.DropEvent):
            log_limit(None, "warning", {"event": "flood"})
    assert LimitHits(log_limit).counts()[Limit.LOG_LINES.value] == 3


def test_every_limit_is_in_a_table_of_the_guide() -> None:
    _, *sections = GUIDE.read_text(encoding="utf-8").split("\n## ")
    rows = [line for section in sections for line in section.splitlines() if line.startswith("| `")]
    assert [limit.value for limit in Limit if not any(f"`{limit.value}`" in row for row in rows)] == []


@pytest.mark.parametrize(("allowed", "limit"), [(2, Limit.CONNECTIONS), (1, Limit.OPEN_FILES)])
def test_refused_connections_count(allowed: int, limit: Limit) -> None:
    cluster = Cluster(settings={"maxConcurrentConnections": 2})
    server = Server(cluster.environment, cluster.domains, allowed)
    sockets = [connect(server)[1] for _ in range(allowed + 3)]
    assert [socket.closed for socket in sockets] == [False] * allowed + [True] * 3
    assert hits(cluster) == {limit.value: 3}


def test_connections_of_an_address_are_refused_with_the_error_of_pulsar() -> None:
    cluster = Cluster(settings={"brokerMaxConnectionsPerIp": 2})
    server = Server(cluster.environment, cluster.domains)
    served = [connect(server) for _ in range(2)]
    refused, socket = connect(server)
    assert [each.closed for _, each in served] == [False, False]
    assert socket.closed
    (error,) = [each.command.error for each in FrameDecoder().feed(b"".join(socket.written))]
    assert error.error == pb.NotAllowedError
    assert error.message.startswith("Reached the maximum number of connections on address /10.0.0.1:40000")
    assert hits(cluster) == {Limit.CONNECTIONS_PER_ADDRESS.value: 1}
    refused.connection_lost(None)
    served[0][0].connection_lost(None)
    assert not connect(server)[1].closed


def test_connections_count() -> None:
    cluster = Cluster(settings={"maxConcurrentConnections": 2})
    server = Server(cluster.environment, cluster.domains)
    (served, _), (silent, _), (refused, _) = connect(server), connect(server), connect(server)
    served.data_received(commands.connect(client_version="test"))
    counts = cluster.environment.connections
    assert counts == ConnectionCounts(created=3, succeeded=1)
    for protocol in (refused, silent, served):
        protocol.connection_lost(None)
    assert counts == ConnectionCounts(created=3, succeeded=1, failed=2, closed=3)
    assert counts.active == 0


def test_reads_that_are_short_of_memory_count_once() -> None:
    cluster = Cluster()
    protocol, _ = connect(Server(cluster.environment, cluster.domains))
    assert len(protocol.get_buffer(1)) == READ_BYTES
    cluster.environment.memory.deferred = 1 << 40
    for _ in range(3):
        assert len(protocol.get_buffer(1)) == READ_BYTES_MIN
    assert hits(cluster) == {Limit.PUBLISH_BUFFER.value: 1}


def test_buffered_input_is_handled() -> None:
    cluster = Cluster()
    server = Server(cluster.environment, cluster.domains)
    (first, _), (second, _) = connect(server), connect(server)
    for protocol, name in ((first, "first"), (second, "the second")):
        command = commands.connect(client_version=name)
        protocol.get_buffer(1)[: len(command)] = command
        protocol.buffer_updated(len(command))
    assert [each.session.client_version for each in (first, second)] == ["first", "the second"]


def test_a_client_that_reads_nothing_is_not_read_and_counts_once() -> None:
    cluster = Cluster(settings={"connectionSendBufferBytes": 1 << 20})
    protocol, socket = connect(Server(cluster.environment, cluster.domains))
    for mebibytes in (2, 3):  # above the limit before the first use of the socket
        protocol.session.write(bytes(1 << 20) + b"more")
        protocol.session.write(bytes(1 << 20))
        socket.unread = mebibytes << 20
        cluster.settle()
        assert not socket.is_read
        assert hits(cluster) == {Limit.SEND_BUFFER.value: 1}
    socket.unread = 0
    protocol.resume_writing()
    assert socket.is_read
    protocol.write(bytes(2 << 20))
    cluster.settle()
    assert socket.is_read
    assert hits(cluster) == {Limit.SEND_BUFFER.value: 1}


def test_frames_that_are_too_large_count() -> None:
    cluster = Cluster()
    server = Server(cluster.environment, cluster.domains)
    protocol, socket = connect(server)
    protocol.data_received(frame_opening(20, HANDSHAKE_FRAME_SIZE_MAX))
    assert socket.closed
    assert hits(cluster) == {Limit.HANDSHAKE_FRAME_SIZE.value: 1}
    protocol, socket = connect(server)
    protocol.data_received(commands.connect(client_version="test"))
    protocol.data_received(frame_opening(20, 6 << 20))
    assert socket.closed
    assert hits(cluster) == {Limit.HANDSHAKE_FRAME_SIZE.value: 1, Limit.MESSAGE_SIZE.value: 1}


def test_peers_that_say_nothing_count() -> None:
    cluster = Cluster()
    server = Server(cluster.environment, cluster.domains)
    (silent, no_handshake), (connected, no_answer) = connect(server), connect(server)
    connected.data_received(commands.connect(client_version="test", protocol_version=21))
    for seconds in (30, 60):
        silent.tick(float(seconds))
        connected.tick(float(seconds))
    assert [no_handshake.closed, no_answer.closed] == [True, True]
    assert hits(cluster) == {Limit.KEEP_ALIVE.value: 2}


def test_dropped_markers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_queue, "WAITING_MAX", 1)
    cluster = Cluster(targets=["jfk"])
    link = cluster.topic().replicators["jfk"]
    for name in ("one", "two", "three"):
        cluster.do(partial(link.send_marker, QueuedMarker(b"", EARLIEST, update_of=name)))
    assert hits(cluster) == {Limit.WAITING_MARKERS.value: 2}


def test_too_many_partitions_are_not_added() -> None:
    cluster = Cluster(settings={"maxNumPartitionsPerPartitionedTopic": 2})
    topic = TopicName.parse("persistent://public/default/parts")
    cluster.do(lambda: cluster.partition(topic, 1))
    administration = Administration(cluster.environment, cluster.domains, "")
    task = cluster.loop.start(administration.topics.update_partitioned(topic, 3))
    cluster.settle()
    with pytest.raises(AdminError, match="Desired partitions 3 can't be greater than") as raised:
        task.result()
    assert raised.value.limit is Limit.PARTITIONS
    assert administration.topics.partitions_of(topic) == 1


def test_an_error_names_the_limit_that_a_frame_exceeds() -> None:
    cluster = Cluster()
    client = cluster.client()
    with pytest.raises(RemoteProtocolError, match=r"exceeds the limit of 5253120 \(maxMessageSize\)"):
        client._connection.receive_gathering(frame_opening(20, 6 << 20), 0.0)


def publish(client: Client, *entries: bytes, messages: int = 1) -> None:
    client.produce()
    for number, each in enumerate(entries):
        client.say(commands.send(producer_id=1, sequence_id=number, entry=each, num_messages=messages))


def compressed(messages: int) -> bytes:
    """Return a compressed batch that claims to have ``messages`` messages."""
    metadata = pb.MessageMetadata(
        producer_name="p",
        sequence_id=0,
        publish_time=1,
        num_messages_in_batch=messages,
        compression=pb.ZLIB,
        uncompressed_size=BATCHED_MESSAGE_SIZE_MIN * messages,
    )
    return build_entry(metadata, b"x")


def too_large(client: Client) -> None:
    publish(client, entry("x" * (1000 + ENTRY_METADATA_PADDING)), entry("x"))


def too_large_metadata(client: Client) -> None:
    publish(client, entry("x", properties=[pb.KeyValue(key="k", value="x" * 1000)]), entry("x"))


def too_many_clusters(client: Client) -> None:
    publish(client, entry("x", replicate_to=["jfk"] * (REPLICATION_CLUSTERS_MAX + 1)))


def too_many_in_a_batch(client: Client) -> None:
    publish(client, compressed(BATCH_MESSAGES_MAX + 1))


def too_many_to_open(client: Client) -> None:
    messages = OPENED_BATCH_MESSAGES_MAX + 1
    publish(client, compressed(messages), messages=messages)


def too_many_unread(client: Client) -> None:
    publish(client, entry("x"))
    client.subscribe()
    client.cluster.store.cached = False
    position = client.cluster.topic().ledger.last_confirmed_entry
    data = pb.MessageIdData(
        ledgerId=position.ledger_id, entryId=position.entry_id, ack_set=[-2], batch_size=UNREAD_BATCH_MESSAGES_MAX + 1
    )
    client.say(commands.ack(consumer_id=1, message_ids=[data]))


def too_many_publishes(client: Client) -> None:
    client.produce()
    client.cluster.prompt = False
    for first in (0, 2, 4, 6):
        client.send("a", "b", first=first)
    assert not client.reading


def a_client_that_does_not_read(client: Client) -> None:
    client.session.account.unsent.write(2 << 20)
    client.session.writable(is_writable=False)
    client.session.account.unsent.close()
    client.session.writable(is_writable=True)


def others_that_do_not_read(client: Client) -> None:
    client.session.account.unsent.write(100_000)
    client.session.environment.memory.sending.used += 1 << 30
    client.session.writable(is_writable=False)


def too_many_unacknowledged(client: Client) -> None:
    client.subscribe(kind=Shared)
    publish(client, *(entry(str(number)) for number in range(8)))


def too_many_partitions(client: Client) -> None:
    client.topic = TopicName.parse("persistent://public/default/orders-partition-3")
    client.produce(name="pulsar.repl.jfk-->ewr")
    assert [error.error for error in client.take("ERROR")] == [ServerError.NotAllowedError]


def too_late_a_delivery(client: Client) -> None:
    publish(client, entry("x", deliver_at_time=1_700_000_001_001))


def ask_for_topics(client: Client, pattern: str) -> None:
    body = pb.CommandGetTopicsOfNamespace(request_id=1, namespace="public/default", topics_pattern=pattern)
    client.say(commands.encode(body))


def too_long_a_pattern(client: Client) -> None:
    ask_for_topics(client, "x" * 51)


def too_large_a_pattern(client: Client) -> None:
    ask_for_topics(client, "(.?){999}x")


@pytest.mark.parametrize(
    ("settings", "attack", "expected"),
    [
        ({"maxMessageSize": 1000}, too_large, [Limit.MESSAGE_SIZE]),
        ({"maxMessageMetadataSize": 1000}, too_large_metadata, [Limit.METADATA_SIZE]),
        ({}, too_many_clusters, [Limit.REPLICATION_CLUSTERS]),
        ({}, too_many_in_a_batch, [Limit.BATCH_MESSAGES]),
        ({"brokerDeduplicationEnabled": True}, too_many_to_open, [Limit.OPENED_BATCH_MESSAGES]),
        ({}, too_many_unread, [Limit.UNREAD_BATCH_MESSAGES]),
        ({"maxPendingPublishRequestsPerConnection": 2}, too_many_publishes, [Limit.PENDING_PUBLISHES]),
        ({}, a_client_that_does_not_read, [Limit.SEND_BUFFER]),
        ({}, others_that_do_not_read, [Limit.SEND_BUFFERS]),
        ({"maxUnackedMessagesPerConsumer": 4}, too_many_unacknowledged, [Limit.UNACKED_PER_CONSUMER]),
        ({"maxUnackedMessagesPerSubscription": 4}, too_many_unacknowledged, [Limit.UNACKED_PER_SUBSCRIPTION]),
        ({"maxNumPartitionsPerPartitionedTopic": 2}, too_many_partitions, [Limit.PARTITIONS]),
        ({"delayedDeliveryMaxDelayInMillis": 1000}, too_late_a_delivery, [Limit.DELIVERY_DELAY]),
        ({}, too_long_a_pattern, [Limit.TOPICS_PATTERN_LENGTH]),
        ({}, too_large_a_pattern, [Limit.TOPICS_PATTERN_MEMORY]),
    ],
)
def test_each_hit_counts_once(
    settings: dict[str, Any], attack: Callable[[Client], None], expected: list[Limit]
) -> None:
    cluster = Cluster(targets=["jfk"], settings=settings)
    attack(cluster.client())
    assert hits(cluster) == {limit.value: 1 for limit in expected}


def test_withheld_receipts_count() -> None:
    cluster = Cluster(settings={"maxWithheldReceiptsPerConnection": 4})
    session = cluster.client().session
    for count in (3, 3, 3, -9, 5):
        session.receipts_withheld(count)
    assert hits(cluster) == {Limit.WITHHELD_RECEIPTS.value: 2}


def test_forgotten_producers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_session, "CLOSED_PRODUCERS_MAX", 8)
    cluster = Cluster()
    session = cluster.client().session
    for number in range(10):
        broker_session.note_closed(session, number)
    assert hits(cluster) == {Limit.CLOSED_PRODUCERS.value: 2}


def test_refused_progress_markers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming_progress, "MARKERS_MAX", 0)
    cluster = Cluster(targets=["jfk"])
    client = cluster.client()
    client.produce(name="magnetar.progress.jfk")
    (payload,) = encode_markers("jfk", [SubscriptionProgress("worker")])
    marker = markers.build_marker(markers.PROGRESS, payload, publish_time_ms=1)
    client.say(commands.send(producer_id=1, sequence_id=0, entry=marker))
    (error,) = client.take("SEND_ERROR")
    assert error.message.endswith("(maxPendingProgressMarkersPerTopic)")
    assert hits(cluster) == {Limit.PROGRESS_MARKERS.value: 1}


def test_the_guide_says_which_limits_are_fixed() -> None:
    fixed = set(re.findall(r"`(\w+)` \(fixed\)", GUIDE.read_text(encoding="utf-8")))
    assert fixed == {limit.value for limit in Limit} - set(BrokerConfig.model_fields)
