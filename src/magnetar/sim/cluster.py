"""A cluster for unit tests: a real broker without sockets on a manual loop, and clients that record frames."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import MagnetarError
from magnetar.base.limits import BATCHED_MESSAGE_SIZE_MIN
from magnetar.base.names import NamespaceName, TopicName
from magnetar.broker.delayed.store import DelayedStore
from magnetar.broker.domains import Domains
from magnetar.broker.environment import Environment
from magnetar.broker.housekeeping.trimming import trimming
from magnetar.broker.loop.slices import at_once
from magnetar.broker.loop.turns import LoopTurns
from magnetar.broker.resources.memory import MemoryBudget
from magnetar.broker.resources.memory_limits import memory_limits
from magnetar.broker.session.receiving import receive
from magnetar.broker.session.session import Session
from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.topic.registry import TopicRegistry
from magnetar.client.options import PeerAddress
from magnetar.geo.progress.link import LinkOptions, ProgressLinks
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.policies import ClusterData, Policies, TenantInfo
from magnetar.metadata.resources import Resources
from magnetar.sim.virtual.loop import HandClock, HandLoop
from magnetar.sim.virtual.store import ManualStore
from magnetar.sim.virtual.thread import HandThread
from magnetar.wire import commands
from magnetar.wire.connection import Connection, Role
from magnetar.wire.entries.entry import build_entry, payload_of
from magnetar.wire.frame import Frame, FrameDecoder
from magnetar.wire.message_id import message_id, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from magnetar.base.position import Position
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.topic import Topic

PORT = 6650
"""Port of all brokers."""

MACHINE_BYTES = 4 << 30
"""Memory of a simulated machine, in bytes."""

NAMESPACE = NamespaceName("public", "default")
TOPIC = TopicName.parse("persistent://public/default/orders")

Exclusive = pb.CommandSubscribe.Exclusive
Shared = pb.CommandSubscribe.Shared
Failover = pb.CommandSubscribe.Failover
Key_Shared = pb.CommandSubscribe.Key_Shared


def address_of(machine: str) -> PeerAddress:
    """Return the address of a broker."""
    return PeerAddress(f"pulsar://{machine}:{PORT}")


def entry(text: str, **metadata: Any) -> bytes:
    """Build an entry as a client publishes it, large enough for the number of messages that it declares."""
    values = {"producer_name": "client", "sequence_id": 0, "publish_time": 1_700_000_000_000, **metadata}
    size = BATCHED_MESSAGE_SIZE_MIN * metadata.get("num_messages_in_batch", 0)
    return build_entry(pb.MessageMetadata(**values), text.encode().ljust(size, b"\0"))


class NoLinks(ProgressLinks):
    """Progress links that never reach another cluster."""

    async def connection(self, peer: str) -> Any:
        """Raise MagnetarError."""
        message = f"{peer} cannot be reached"
        raise MagnetarError(message)


@dataclass
class Cluster:
    """The data of one broker, and the broker itself, which may crash and start again."""

    name: str = "ewr"
    targets: Sequence[str] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    loop: HandLoop = field(default_factory=HandLoop)
    ledger_config: ManagedLedgerConfig = field(default_factory=ManagedLedgerConfig)
    links: Callable[[Cluster], ProgressLinks] | None = None
    prompt: bool = True
    """Whether requests become durable as soon as the loop is idle."""
    loss_boundaries: tuple[int, ...] = ()
    """See Environment."""

    def __post_init__(self) -> None:
        """Create an empty disk and a namespace that replicates to the targets."""
        self.clock = HandClock(self.loop)
        self.store = ManualStore()
        self.metadata = MemoryMetadataStore(self.clock)
        self.delayed_store = DelayedStore(Path(":memory:"))
        self.resources = Resources.over(self.metadata)
        self.resources.tenants.create("public", TenantInfo())
        self.resources.namespaces.create(NAMESPACE, Policies(replication_clusters=[self.name, *self.targets]))
        self.clients: list[Client] = []
        self.start()

    def start(self) -> None:
        """Start a broker with the data on the disk."""
        self.delayed = HandThread(self.delayed_store, self.loop)
        config = BrokerConfig(clusterName=self.name, **self.settings)
        options = LinkOptions(interval_s=0.05, full_state_interval_s=30)
        links = self.links(self) if self.links else NoLinks(self.name, lambda _: None, self.clock, options)
        self.environment = Environment(
            config=config,
            clock=self.clock,
            loop=self.loop,
            store=self.store,
            metadata=self.metadata,
            resources=self.resources,
            links=links,
            ledger_config=self.ledger_config,
            delayed=self.delayed,
            turns=LoopTurns(self.loop, self.clock),
            memory=MemoryBudget(memory_limits(config, MACHINE_BYTES)),
            loss_boundaries=self.loss_boundaries,
        )
        self.topics = TopicRegistry(self.environment, ClusterData(brokerServiceUrl="pulsar://here:6650"))
        self.domains = Domains(self.topics)

    def crash(self) -> None:
        """Lose everything that is not durable, and start again."""
        for client in self.clients:
            client.session.closed()
        self.clients.clear()
        for topic in self.topics.loaded.values():
            topic.log.migration_fence.close()
            topic.progress.close()
            if topic.snapshots is not None:
                topic.snapshots.stop()
        self.loop.call_soon(self.topics.loaded.clear)
        self.store.crash()
        self.delayed.crash()
        self.topics.loaded.clear()
        self.metadata.forget_watchers()
        self.resources = type(self.resources).over(self.metadata)
        self.start()

    def lose_power(self, ledger_id: int, length: int) -> None:
        """Lose the unsynced entries of a ledger after the first ``length``, and start again."""
        self.store.lose(ledger_id, length)
        self.loss_boundaries += (self.store.next_ledger_id,)
        self.crash()

    def settle(self) -> None:
        """Run the loop until it is idle."""
        self.loop.spin()
        while self.prompt and self.store.pending:
            self.commit()

    def commit(self, count: int | None = None) -> None:
        """Make the oldest ``count`` requests durable, and run the loop until it is idle."""
        self.loop.call_soon(self.store.commit, count)
        self.loop.spin()

    def fail(self) -> None:
        """Fail all pending requests because the disk is full."""
        self.loop.call_soon(self.store.fail)
        self.loop.spin()

    def do(self, work: Callable[[], Any]) -> Any:
        """Run ``work`` in the loop, and all its consequences."""
        answers: list[Any] = []
        self.loop.call_soon(lambda: answers.append(work()))
        self.settle()
        assert answers, self.loop.problems
        return answers[0]

    def topic(self, name: TopicName = TOPIC) -> Topic:
        """Return the topic; load or create it if necessary."""
        topic: Topic = self.do(lambda: self.topics.get_or_create(name))
        return topic

    def trim(self, name: TopicName = TOPIC) -> None:
        """Trim a topic; load it if necessary."""
        topic = self.topic(name)
        self.do(lambda: list(trimming(topic)))

    def partition(self, name: TopicName, partitions: int) -> None:
        """Create a partitioned topic, or raise its number of partitions to ``partitions``."""
        known, partitioned = self.topics.partitions_of(name), self.topics.partitioned
        at_once(partitioned.addition(name, partitions) if known else partitioned.creation(name, partitions, {}))

    def delete(self, name: TopicName) -> None:
        """Delete a topic; raises what is known at once to have failed."""
        deleted = at_once(self.topics.deletion(name))
        if deleted.done():
            deleted.result()

    def subscription(self, name: str = "worker") -> Subscription:
        """Return a subscription of the topic."""
        return self.topic().subscriptions[name]

    def client(self) -> Client:
        """Open a connection."""
        client = Client(self)
        self.clients.append(client)
        return client

    def replicate_to(self, *targets: str, custody: Mapping[str, str] | None = None) -> None:
        """Change the namespace's replication clusters."""
        changed = Policies(replication_clusters=[self.name, *targets], custody=dict(custody or {}))
        self.do(lambda: self.resources.namespaces.update(NAMESPACE, lambda _: changed))


class Client:
    """A connection that sends given frames and records received ones. It is also the protocol object of its session."""

    def __init__(self, cluster: Cluster) -> None:
        """Connect to the broker of ``cluster``."""
        self.topic = TOPIC
        """The topic that the client publishes to and consumes from."""
        self.cluster = cluster
        self.heard: list[Frame] = []
        self.reading = True
        self.disconnected = False
        self.probes = 0
        self._decoder = FrameDecoder()
        connection = Connection(Role.BROKER, now=cluster.clock.monotonic())
        self.session = Session(cluster.environment, cluster.domains, self, connection)
        self._connection = connection
        self._requests = 0
        self.say(commands.connect(client_version="test"))
        assert self.names() == ["CONNECTED"]

    # protocol interface of the session

    def write(self, frame: bytes) -> None:
        """Record a frame of the session."""
        self.heard += self._decoder.feed(frame)

    def pause_reading(self) -> None:
        """See ServerProtocol."""
        self.reading = False

    def resume_reading(self) -> None:
        """See ServerProtocol."""
        self.reading = True

    def close(self) -> None:
        """See ServerProtocol."""
        self.disconnected = True

    abort = close

    def probe(self) -> None:
        """Count a PING."""
        self.probes += 1

    # actions of the application

    def say(self, *frames: bytes) -> None:
        """Send frames in one read of the socket."""
        data = b"".join(frames)

        def read() -> None:
            now = self.cluster.clock.monotonic()
            left = receive(self.session, self._connection.receive_gathering(data, now))
            while left or self._connection.decoder.has_more:
                left = receive(self.session, left or self._connection.receive_gathering(b"", now))

        self.cluster.do(read)

    def leave(self) -> None:
        """Close the connection."""
        self.cluster.do(self.session.closed)

    def request_id(self) -> int:
        """Return a new request id."""
        self._requests += 1
        return self._requests

    def take(self, name: str) -> list[Any]:
        """Return the bodies of the received commands with this name; each is returned once."""
        kind = pb.BaseCommand.Type.Value(name)
        taken = [frame for frame in self.heard if frame.command.type == kind]
        self.heard = [frame for frame in self.heard if frame.command.type != kind]
        field_name = pb.BaseCommand.DESCRIPTOR.fields_by_number[kind].name
        return [getattr(frame.command, field_name) for frame in taken]

    def names(self) -> list[str]:
        """Return the names of the commands received since the last call, in order."""
        names = [pb.BaseCommand.Type.Name(frame.command.type) for frame in self.heard]
        self.heard.clear()
        return names

    def messages(self) -> list[str]:
        """Return the payloads of the messages received since the last call."""
        taken = [frame for frame in self.heard if frame.command.type == pb.BaseCommand.MESSAGE]
        self.heard = [frame for frame in self.heard if frame.command.type != pb.BaseCommand.MESSAGE]
        return [_payload(frame.body) for frame in taken]

    def produce(self, producer_id: int = 1, name: str = "", **fields: Any) -> None:
        """Open a producer."""
        body = pb.CommandProducer(
            topic=str(self.topic), producer_id=producer_id, request_id=self.request_id(), producer_name=name, **fields
        )
        self.say(commands.encode(body))

    def send(self, *texts: str, producer_id: int = 1, first: int = 0) -> None:
        """Publish entries in one read of the socket, with sequence ids from ``first``."""
        frames = [
            commands.send(producer_id=producer_id, sequence_id=first + index, entry=entry(text))
            for index, text in enumerate(texts)
        ]
        self.say(*frames)

    def subscribe(
        self,
        consumer_id: int = 1,
        kind: pb.CommandSubscribe.SubType.ValueType = Shared,
        permits: int = 1000,
        **fields: Any,
    ) -> None:
        """Open a consumer; the default is a Shared consumer of ``worker`` that begins at the earliest position."""
        values = {
            "subscription": "worker",
            "initialPosition": pb.CommandSubscribe.Earliest,
            "consumer_name": f"consumer-{consumer_id}",
            **fields,
        }
        body = pb.CommandSubscribe(
            topic=str(self.topic), subType=kind, consumer_id=consumer_id, request_id=self.request_id(), **values
        )
        self.say(commands.subscribe(body))
        if permits:
            self.say(commands.flow(consumer_id=consumer_id, message_permits=permits))

    def ack(self, *positions: Position, consumer_id: int = 1, **options: Any) -> None:
        """Acknowledge whole entries."""
        ids = [message_id(position) for position in positions]
        self.say(commands.ack(consumer_id=consumer_id, message_ids=ids, **options))

    def receipts(self) -> list[tuple[int, Position]]:
        """Return the sequence ids receipted since the last call, with their positions."""
        return [(receipt.sequence_id, position_of(receipt.message_id)) for receipt in self.take("SEND_RECEIPT")]


def _payload(body: bytes) -> str:
    return bytes(payload_of(body)).decode().rstrip("\0")
