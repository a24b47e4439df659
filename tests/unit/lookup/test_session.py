"""Sessions with clients, without sockets, and with fake clusters."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import RequestError, ServerError
from magnetar.lookup.clusters import Caller
from magnetar.lookup.knowledge import Knowledge
from magnetar.lookup.metrics import Metrics
from magnetar.lookup.options import LookupOptions
from magnetar.lookup.questions import Questions
from magnetar.lookup.session import SERVER_VERSION, LookupSession
from magnetar.lookup.shared import Shared
from magnetar.metadata.routes.table import Route
from magnetar.wire import commands
from magnetar.wire.frame import FrameDecoder
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.wait import turns
from tests.unit.lookup.test_knowledge import atlas

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from google.protobuf.message import Message

TOPIC = "persistent://acme/orders/a"
Found = pb.CommandLookupTopicResponse


class FakeClusters:
    """Clusters whose brokers answer when a test allows it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Caller, str]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.refusal: RequestError | None = None
        self.topics = {"ewr": [TOPIC, "persistent://acme/orders/b"], "jfk": [TOPIC, "persistent://acme/orders/b"]}

    async def owner(self, cluster: str, caller: Caller, asked: pb.CommandLookupTopic) -> Found:
        await self._note(cluster, caller, f"owner {asked.topic} {asked.advertised_listener_name}".strip())
        return Found(
            request_id=0, brokerServiceUrl=f"pulsar://{cluster}:1", brokerServiceUrlTls=f"pulsar+ssl://{cluster}:2"
        )

    async def ask(self, cluster: str, caller: Caller, asked: Message) -> pb.BaseCommand:
        (frame,) = FrameDecoder().feed(commands.encode_with_id(asked, 77))
        await self._note(cluster, caller, pb.BaseCommand.Type.Name(frame.command.type))
        answer = pb.BaseCommand()
        if frame.command.type == pb.BaseCommand.PARTITIONED_METADATA:
            answer.partitionMetadataResponse.partitions = 3
        elif frame.command.type == pb.BaseCommand.GET_SCHEMA:
            answer.getSchemaResponse.request_id = 77
            answer.getSchemaResponse.schema_version = b"v"
        else:
            answer.getTopicsOfNamespaceResponse.request_id = 77
            answer.getTopicsOfNamespaceResponse.topics.extend(self.topics[cluster])
        return answer

    async def _note(self, cluster: str, caller: Caller, what: str) -> None:
        self.asked.append((cluster, caller, what))
        await self.open.wait()
        if self.refusal is not None:
            raise self.refusal


class Client:
    """A client, and the transport of its session."""

    def __init__(self, shared: Shared, listener: str = "", **connect: Any) -> None:  # noqa: ANN401 - fields of CONNECT
        self.closed = self.aborted = False
        self._decoder = FrameDecoder()
        self._heard: list[pb.BaseCommand] = []
        self.session = LookupSession(shared, listener)
        self.session.connection_made(self)  # type: ignore[arg-type]
        if not self.aborted:
            self.say(commands.connect(client_version="test", **connect))

    def get_extra_info(self, name: str) -> object:
        return None if name == "sslcontext" else ("::1", 1)

    def write(self, data: bytes) -> None:
        self._heard += [frame.command for frame in self._decoder.feed(data)]

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def say(self, *frames: bytes) -> None:
        self.session.data_received(b"".join(frames))

    async def heard(self) -> list[Any]:
        """Return the bodies of what was received, after a few turns of the loop."""
        await turns(10)
        heard, self._heard = self._heard, []
        fields = pb.BaseCommand.DESCRIPTOR.fields_by_number
        return [getattr(each, fields[each.type].name) for each in heard]


class World:
    """An instance with fake clusters."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - any option
        self.knowledge, self.clusters = Knowledge("ewr"), FakeClusters()
        given = LookupOptions(broker_urls=(), data_directory=Path("unused"), **options)
        self.questions = Questions(self.knowledge, self.clusters, given)  # type: ignore[arg-type]
        self.metrics = Metrics()
        self.shared = Shared(given, self.questions, self.metrics)

    async def client(self, **connect: Any) -> Client:  # noqa: ANN401 - fields of CONNECT
        client = Client(self.shared, **connect)
        (connected,) = await client.heard()
        assert connected.server_version == SERVER_VERSION
        return client

    def route(self, cluster: str, epoch: int, scope: str = "acme") -> None:
        self.knowledge.learn(atlas("ewr", {scope: Route(cluster, epoch)}))


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def wrapped() -> None:
        asyncio.run(test())

    wrapped.__name__ = test.__name__
    return wrapped


def look_up(request_id: int = 1, topic: str = TOPIC) -> bytes:
    return commands.lookup(topic=topic, request_id=request_id)


@run
async def test_a_lookup_is_answered_with_the_broker_of_the_owning_cluster_and_once_for_equal_ones() -> None:
    world = World()
    world.route("jfk", 1)
    one, other = await world.client(), await world.client()
    world.clusters.open.clear()
    one.say(look_up(1), look_up(2))
    other.say(look_up(9))
    assert await one.heard() == []
    world.clusters.open.set()
    answers = [*await one.heard(), *await other.heard()]
    assert [each.request_id for each in answers] == [1, 2, 9]
    assert {(each.response, each.brokerServiceUrl, each.brokerServiceUrlTls) for each in answers} == {
        (Found.Connect, "pulsar://jfk:1", "pulsar+ssl://jfk:2")
    }
    other.say(look_up(10))
    assert [each.request_id for each in await other.heard()] == [10]
    assert world.clusters.asked == [("jfk", Caller(), f"owner {TOPIC}")]


class HandTime:
    """The loop of a test with a time of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.create_task = asyncio.get_running_loop().create_task

    def time(self) -> float:
        return self.now


@run
async def test_an_aging_answer_is_given_while_it_is_asked_again() -> None:
    world, time = World(), HandTime()
    world.questions._loop = time  # type: ignore[assignment]
    client = await world.client()
    client.say(look_up(1))
    await client.heard()
    world.clusters.open.clear()
    for now, asked in ((1.0, 1), (1.1, 2), (1.9, 2)):
        time.now = now
        client.say(look_up(2))
        assert [each.brokerServiceUrl for each in await client.heard()] == ["pulsar://ewr:1"]
        assert len(world.clusters.asked) == asked
    world.clusters.open.set()
    assert await client.heard() == []
    time.now = 3.8
    client.say(look_up(3))
    assert [each.request_id for each in await client.heard()] == [3]


@run
async def test_a_change_of_the_route_ends_the_validity_of_an_answer() -> None:
    world = World()
    client = await world.client()
    for cluster, epoch in (("ewr", 1), ("jfk", 2), ("ewr", 3)):
        world.route(cluster, epoch)
        client.say(look_up())
        (answer,) = await client.heard()
        assert answer.brokerServiceUrl == f"pulsar://{cluster}:1"


@run
async def test_the_credentials_and_the_listener_of_a_client_are_passed_on_and_answers_are_not_shared() -> None:
    world = World()
    alice = await world.client(auth_method_name="token", auth_data=b"alice")
    named = pb.CommandLookupTopic(topic=TOPIC, request_id=1, advertised_listener_name="external")
    alice.say(commands.encode(named))
    await alice.heard()
    bob = await world.client(auth_method_name="none", auth_data=b"x")
    bob.say(look_up())
    await bob.heard()
    alice.say(commands.auth_response(client_version="test", auth_method_name="token", auth_data=b"renewed"), look_up())
    await alice.heard()
    assert world.clusters.asked == [
        ("ewr", Caller("token", b"alice"), f"owner {TOPIC} external"),
        ("ewr", Caller(), f"owner {TOPIC}"),
        ("ewr", Caller("token", b"renewed"), f"owner {TOPIC}"),
    ]


@run
async def test_the_port_of_a_client_decides_about_its_listener_unless_it_names_one() -> None:
    world = World()
    client = Client(world.shared, "external")
    client.say(look_up())
    client.say(commands.encode(pb.CommandLookupTopic(topic=TOPIC, request_id=2, advertised_listener_name="other")))
    await client.heard()
    assert [what for _, _, what in world.clusters.asked] == [f"owner {TOPIC} external", f"owner {TOPIC} other"]


@run
async def test_partitions_and_schemas_are_asked_from_the_owning_cluster() -> None:
    world = World()
    world.route("jfk", 1)
    client = await world.client()
    client.say(commands.partitioned_metadata(topic=TOPIC, request_id=4))
    client.say(commands.encode(pb.CommandGetSchema(topic=TOPIC, request_id=5)))
    partitions, schema = sorted(await client.heard(), key=lambda each: int(each.request_id))
    assert (partitions.request_id, partitions.partitions) == (4, 3)
    assert (schema.request_id, schema.schema_version) == (5, b"v")
    assert [cluster for cluster, _, _ in world.clusters.asked] == ["jfk", "jfk"]


@run
async def test_the_topics_of_a_namespace_are_those_that_each_cluster_serves() -> None:
    world = World()
    world.route("jfk", 1, scope=TOPIC)
    client = await world.client()
    client.say(commands.get_topics_of_namespace(request_id=6, namespace="acme/orders"))
    (found,) = await client.heard()
    assert (found.request_id, list(found.topics)) == (6, [TOPIC, "persistent://acme/orders/b"])
    client.say(commands.get_topics_of_namespace(request_id=7, namespace="acme/orders", topics_hash=found.topics_hash))
    (again,) = await client.heard()
    assert (again.changed, list(again.topics)) == (False, [])
    world.clusters.topics["jfk"] = []
    client.say(commands.get_topics_of_namespace(request_id=8, namespace="acme/orders", topics_hash=found.topics_hash))
    (changed,) = await client.heard()
    assert (changed.changed, list(changed.topics)) == (True, ["persistent://acme/orders/b"])


@run
async def test_a_refusal_is_passed_on_and_not_kept() -> None:
    world = World()
    client = await world.client()
    world.clusters.refusal = RequestError(ServerError.TopicNotFound, "no such topic")
    client.say(look_up(1), commands.partitioned_metadata(topic=TOPIC, request_id=2))
    client.say(commands.get_topics_of_namespace(request_id=3, namespace="acme/orders"))
    client.say(commands.encode(pb.CommandGetSchema(topic=TOPIC, request_id=4)))
    refusals = await client.heard()
    assert {each.request_id for each in refusals} == {1, 2, 3, 4}
    world.clusters.refusal = None
    client.say(look_up(5))
    (answer,) = await client.heard()
    assert answer.response == Found.Connect


@run
async def test_commands_for_brokers_are_refused_such_that_clients_look_up_again() -> None:
    world = World()
    client = await world.client()
    client.say(commands.producer(topic=TOPIC, producer_id=1, request_id=1, producer_name="p"))
    client.say(commands.close_producer(producer_id=1, request_id=2))
    refusal, closed = await client.heard()
    assert (refusal.request_id, refusal.error) == (1, pb.ServiceNotReady)
    assert closed.request_id == 2
    assert not client.closed
    client.say(commands.flow(consumer_id=1, message_permits=1))
    assert client.closed


@pytest.mark.parametrize(
    ("options", "limit"),
    [({"questions_max": 1}, "--questions-max"), ({"questions_of_connection_max": 1}, "--questions-of-connection-max")],
)
def test_questions_beyond_a_limit_are_refused_and_tried_again(options: dict[str, int], limit: str) -> None:
    async def test() -> None:
        world = World(**options)
        client = await world.client()
        world.clusters.open.clear()
        client.say(look_up(1), look_up(2, "persistent://acme/orders/b"))
        (refused,) = await client.heard()
        assert (refused.request_id, refused.error) == (2, pb.TooManyRequests)
        assert limit in refused.message
        world.clusters.open.set()
        assert [each.request_id for each in await client.heard()] == [1]

    asyncio.run(test())


@run
async def test_connections_beyond_the_limit_are_closed() -> None:
    world = World(connections_max=1)
    first = await world.client()
    second = Client(world.shared)
    assert second.aborted
    second.session.connection_lost(None)
    first.session.connection_lost(None)
    await world.client()
    assert world.metrics.registry.get_sample_value("magnetar_lookup_refused_connections_total") == 1


@run
async def test_a_client_that_leaves_gives_up_its_questions_and_others_get_the_answer() -> None:
    world = World()
    leaver, stayer = await world.client(), await world.client()
    world.clusters.open.clear()
    leaver.say(look_up(1))
    await leaver.heard()
    stayer.say(look_up(2))
    leaver.session.connection_lost(None)
    world.clusters.open.set()
    assert [each.request_id for each in await stayer.heard()] == [2]
    assert await leaver.heard() == []
    assert len(world.clusters.asked) == 1
