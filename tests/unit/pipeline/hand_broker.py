"""A manual event loop with a broker that grants everything."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.schema.info import version_from_bytes, version_to_bytes
from magnetar.sim.virtual import loop as virtual
from magnetar.wire import commands
from magnetar.wire.frame import Frame, FrameDecoder
from magnetar.wire.message_id import message_id, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable


class HandLoop(virtual.HandLoop):
    """Connects to ``HandBroker``s by their URLs, without ports."""

    def __init__(self, *brokers: HandBroker) -> None:
        super().__init__()
        self._brokers = {broker.url.removeprefix("pulsar://").partition(":")[0]: broker for broker in brokers}

    async def create_connection(self, protocol_factory: Callable[[], Any], host: Any, port: Any, *, ssl: None) -> Any:  # type: ignore[override]  # noqa: ANN401
        del port, ssl
        if host not in self._brokers:
            message = "nobody is there"
            raise ConnectionRefusedError(message)
        protocol = protocol_factory()
        transport = self._brokers[host].connect(protocol, self)
        self.call_soon(protocol.connection_made, transport)
        return transport, protocol

    def run(self) -> None:
        """Run all due callbacks."""
        self.spin()
        assert self.problems == []

    def pass_time(self, seconds: float) -> None:
        self.advance(seconds)
        assert self.problems == []


class HandTransport(asyncio.Transport):
    """The client's end of a connection to a ``HandBroker``."""

    def __init__(self, broker: HandBroker, protocol: asyncio.Protocol, loop: HandLoop) -> None:
        super().__init__()
        self.protocol = protocol
        self._broker = broker
        self._loop = loop

    def write(self, data: Any) -> None:  # noqa: ANN401
        if self._broker.connection is self:
            self._broker.take(data)

    def arrive(self, data: bytes) -> None:
        self._loop.call_soon(self._deliver, data)

    def after_input(self, callback: Callable[[], None]) -> None:
        """Call back when the client has received what was sent."""
        self._loop.call_soon(callback)

    def lose(self) -> None:
        self._loop.call_soon(self.protocol.connection_lost, None)

    def close(self) -> None:
        if self._broker.connection is self:
            self._broker.connection = None

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def _deliver(self, data: bytes) -> None:
        if self._broker.connection is self:
            self.protocol.data_received(data)


class HandBroker:
    """Grants lookups, producers and consumers, sends receipts for all entries, and records its input."""

    rests_links = False
    divides_links = False
    """Whether the broker supports links that rest."""
    takes_runs = False
    """Whether the broker takes runs of entries."""
    reads_place = True
    """Whether the broker reads the place of an entry on its link from the field."""

    takes_custody = False
    """Whether the broker takes entries in the custody of a source."""

    takes_custody_runs = False
    """Whether the broker takes runs of them."""

    hangs_up = False
    """Whether the broker closes the next connection right after it has accepted it."""

    def __init__(self, url: str, max_message_size: int = 5 << 20, *, reports_links: bool = False) -> None:
        self.url = self.owner_url = url
        self.reports_links = reports_links
        self.watched: list[str] = []
        """Targets of the granted watches of links."""
        self.first_has_more = False
        """Whether the first report of a watch is followed by another one."""
        self.asked_for: list[str] = []
        """Namespaces of each GET_TOPICS_OF_NAMESPACE."""
        self.holds_lists = False
        """Whether answers to GET_TOPICS_OF_NAMESPACE wait for ``release``."""
        self.watch_error: ServerError | None = None
        self.list_error: ServerError | None = None
        """Errors for watches of links, and for lists of topics."""
        self.max_message_size = max_message_size
        self.connection: HandTransport | None = None
        self.connections = 0
        self.entries: dict[int, list[bytes]] = {}
        self.topics: dict[int, str] = {}
        self.life = ""
        self.version = "Magnetar by hand"
        self.bookmarks: list[str] = []
        """Subscriptions with a request for the last message id."""
        self.metadata: list[dict[str, str]] = []
        """Metadata of the producers, in the order of their creation."""
        self.rival = ""
        """The other pipeline that holds all links; empty if none does."""
        self.newer_lease = False
        """Whether the next lease holds all links."""
        self.namespaces: dict[str, list[str]] = {}
        self.subscribed: list[pb.CommandSubscribe] = []
        self.sought: list[pb.CommandSeek] = []
        self.flows: list[int] = []  # permits of each FLOW
        self.acknowledged: list[Position] = []  # the position of each ACK
        self.sent: list[pb.CommandSend] = []
        self.schemas: dict[str, list[pb.Schema]] = {}
        """The schemas of each topic by version."""
        self.asked: list[bytes] = []
        """Versions of each GET_SCHEMA."""
        self.registering: list[str] = []
        """Producers of each GET_OR_CREATE_SCHEMA."""
        self.clash = ""
        """The error for each new schema; empty if it is registered."""
        self.knows_external = True
        """Whether the broker knows the type EXTERNAL; otherwise it closes the connection, as Apache Pulsar 4.0."""
        self.holds_schemas = False
        """Whether answers to GET_SCHEMA wait for ``release``."""
        self.entries_max: int | None = None
        """Number of entries of each producer that the broker accepts; None for all."""
        self._held: list[bytes] = []
        self._decoder = FrameDecoder(frame_size_max=1 << 30)

    @property
    def runs(self) -> list[pb.CommandSend]:
        """The SENDs with runs, whose entries are in ``entries`` as one."""
        return [sent for sent in self.sent if sent.entry_sizes]

    def connect(self, protocol: asyncio.Protocol, loop: HandLoop) -> HandTransport:
        self.connections += 1
        self.connection = HandTransport(self, protocol, loop)
        return self.connection

    def drop(self) -> None:
        """Close the connection."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.lose()

    def take(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            self._answer(frame)

    def say(self, data: bytes) -> None:
        assert self.connection is not None
        self.connection.arrive(data)

    def release(self) -> None:
        """Send the held answers."""
        for answer in self._held:
            self.say(answer)
        self._held.clear()

    def _get_schema(self, asked: pb.CommandGetSchema) -> None:
        self.asked.append(asked.schema_version)
        number, schemas = version_from_bytes(asked.schema_version), self.schemas.get(asked.topic, [])
        if number is None or number >= len(schemas):
            code = ServerError.IncompatibleSchema if number is None else ServerError.TopicNotFound
            answer = commands.get_schema_failed(request_id=asked.request_id, code=code, message="none")
        else:
            answer = commands.get_schema_response(
                request_id=asked.request_id, schema=schemas[number], schema_version=asked.schema_version
            )
        if self.holds_schemas:
            self._held.append(answer)
        else:
            self.say(answer)

    def _get_or_create_schema(self, asked: pb.CommandGetOrCreateSchema) -> None:
        self.registering.append(asked.producerName)
        if asked.schema.type == pb.Schema.External and not self.knows_external:
            self.drop()
            return
        if self.clash:
            code = ServerError.IncompatibleSchema
            self.say(commands.get_or_create_schema_failed(request_id=asked.request_id, code=code, message=self.clash))
            return
        schemas = self.schemas.setdefault(asked.topic, [])
        if asked.schema not in schemas:
            schemas.append(asked.schema)
        version = version_to_bytes(schemas.index(asked.schema))
        self.say(commands.get_or_create_schema_response(request_id=asked.request_id, schema_version=version))

    def _store(self, sent: pb.CommandSend, body: bytes) -> None:
        producer_id, sequence_id = sent.producer_id, sent.sequence_id
        self.sent.append(sent)
        entries = self.entries.setdefault(producer_id, [])
        if self.entries_max is not None and len(entries) >= self.entries_max:
            code = ServerError.NotAllowedError
            self.say(commands.send_error(producer_id=producer_id, sequence_id=sequence_id, code=code, message="full"))
            return
        entries.append(body)
        place = Position(1, len(entries) - 1)
        self.say(commands.send_receipt(producer_id=producer_id, sequence_id=sequence_id, position=place))

    def _list(self, asked: pb.CommandGetTopicsOfNamespace) -> None:
        self.asked_for.append(asked.namespace)
        if self.list_error is not None:
            self.say(commands.error(request_id=asked.request_id, code=self.list_error, message="refused"))
            return
        topics = self.namespaces.get(asked.namespace, [])
        answer = commands.get_topics_of_namespace_response(
            request_id=asked.request_id, topics=topics, topics_hash=",".join(topics) or "none"
        )
        if self.holds_lists:
            self._held.append(answer)
        else:
            self.say(answer)

    def _watch(self, asked: pb.CommandWatchLinks) -> None:
        if self.watch_error is not None:
            self.say(commands.error(request_id=asked.request_id, code=self.watch_error, message="refused"))
            return
        self.watched.append(asked.target)
        self.say(commands.success(request_id=asked.request_id))
        has_more = self.first_has_more
        self.say(commands.links_changed(added=self.namespaces, removed=[], topics_changed=[], has_more=has_more))

    def _grant_links(self, request_id: int) -> bool:
        """Answer a request for links; return whether it is granted."""
        if self.rival or self.newer_lease:
            self.say(commands.link_held(request_id=request_id, message="held", pipeline=self.rival or None))
            return False
        self.say(commands.success(request_id=request_id))
        return True

    def _answer(self, frame: Frame) -> None:  # noqa: C901, PLR0912, PLR0915 - a table
        command = frame.command
        match command.type:
            case pb.BaseCommand.CONNECT:
                version, size = self.version, self.max_message_size
                body = pb.CommandConnected(server_version=version, protocol_version=20, max_message_size=size)
                body.life = self.life
                body.feature_flags.supports_link_watches = self.reports_links
                body.feature_flags.supports_resting_links = self.rests_links
                body.feature_flags.supports_link_buckets = self.divides_links
                body.feature_flags.supports_link_runs = self.takes_runs
                body.feature_flags.supports_link_place = self.reads_place
                body.feature_flags.supports_custody = self.takes_custody
                body.feature_flags.supports_custody_runs = self.takes_custody_runs
                self.say(commands.encode(body))
                if self.hangs_up and self.connection is not None:
                    self.hangs_up = False
                    self.connection.after_input(self.drop)
            case pb.BaseCommand.LOOKUP:
                request_id = command.lookupTopic.request_id
                self.say(commands.lookup_response(request_id=request_id, broker_service_url=self.owner_url))
            case pb.BaseCommand.PRODUCER:
                asked = command.producer
                self.topics[asked.producer_id] = asked.topic
                self.metadata.append({pair.key: pair.value for pair in asked.metadata})
                self.say(commands.producer_success(request_id=asked.request_id, producer_name=asked.producer_name))
            case pb.BaseCommand.SUBSCRIBE:
                self.subscribed.append(command.subscribe)
                self._grant_links(command.subscribe.request_id)
            case pb.BaseCommand.GET_TOPICS_OF_NAMESPACE:
                self._list(command.getTopicsOfNamespace)
            case pb.BaseCommand.WATCH_LINKS:
                self._watch(command.watchLinks)
            case pb.BaseCommand.SEND:
                self._store(command.send, frame.body)
            case pb.BaseCommand.SEEK:
                self.sought.append(command.seek)
                self.say(commands.success(request_id=command.seek.request_id))
            case pb.BaseCommand.FLOW:
                self.flows.append(command.flow.messagePermits)
            case pb.BaseCommand.ACK:
                self.acknowledged += map(position_of, command.ack.message_id)
            case pb.BaseCommand.GET_LAST_MESSAGE_ID:
                self.bookmarks.append(self.subscribed[-1].subscription)
                request_id = command.getLastMessageId.request_id
                self.say(
                    commands.get_last_message_id_response(request_id=request_id, last_message_id=message_id(EARLIEST))
                )
            case pb.BaseCommand.GET_SCHEMA:
                self._get_schema(command.getSchema)
            case pb.BaseCommand.GET_OR_CREATE_SCHEMA:
                self._get_or_create_schema(command.getOrCreateSchema)
            case pb.BaseCommand.CLOSE_PRODUCER:
                self.say(commands.success(request_id=command.close_producer.request_id))
            case pb.BaseCommand.CLOSE_CONSUMER:
                self.say(commands.success(request_id=command.close_consumer.request_id))
            case _:
                pass


class RestingBroker(HandBroker):
    """Lets links rest, and reports its losses."""

    rests_links = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.carried: list[pb.CommandCarryLinks] = []
        """Each CARRY_LINKS."""
        self.state = "run:0"
        """The state of the cluster in the first report of losses."""
        self.subscribe_error: ServerError | None = None
        """Error for each SUBSCRIBE."""
        self.after_error = b""
        """What follows the first error at once."""
        self.holds_consumers = False
        """Whether the answers to SUBSCRIBE wait for ``release``."""

    def _answer(self, frame: Frame) -> None:
        command = frame.command
        match command.type:
            case pb.BaseCommand.CARRY_LINKS:
                self.carried.append(command.carryLinks)
                if self._grant_links(command.carryLinks.request_id):
                    self.say(commands.links_due(topics=chain.from_iterable(self.namespaces.values())))
            case pb.BaseCommand.WATCH_LOSSES:
                self.say(commands.success(request_id=command.watchLosses.request_id))
                self.say(commands.topics_lost(state=self.state))
            case pb.BaseCommand.SUBSCRIBE if self.subscribe_error is not None:
                self.subscribed.append(command.subscribe)
                code, after, self.after_error = self.subscribe_error, self.after_error, b""
                error = commands.error(request_id=command.subscribe.request_id, code=code, message="refused")
                self.subscribe_error = None if after else code
                self.say(error + after)
            case pb.BaseCommand.SUBSCRIBE if self.holds_consumers:
                self.subscribed.append(command.subscribe)
                self._held.append(commands.success(request_id=command.subscribe.request_id))
            case _:
                super()._answer(frame)
