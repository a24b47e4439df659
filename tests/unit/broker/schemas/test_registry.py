"""The registry: what is stored, what is refused, and who waits for whom."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from magnetar.base.errors import IncompatibleSchemaError, InvalidSchemaError, RequestError, ServerError, StorageError
from magnetar.base.limits import Limit
from magnetar.broker.schemas import registry as registry_module
from magnetar.broker.schemas.registry import SchemaRegistry
from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.policies import broker_policies
from magnetar.metadata.cached import CachedMetadataStore
from magnetar.metadata.schemas import STORED_SIZE
from magnetar.schema.avro_definition import AvroDefinition
from magnetar.schema.info import SchemaInfo, SchemaType
from magnetar.schema.parsing import parse
from magnetar.schema.strategy import SchemaCompatibilityStrategy as Strategy
from magnetar.sim.cluster import TOPIC
from magnetar.sim.virtual.loop import HandClock, HandLoop
from tests.unit.schema.definitions import ADDED_REQUIRED, OPTIONAL, REQUIRED, avro

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from avro.schema import Schema

    from magnetar.base.names import TopicName
    from magnetar.metadata.cached import Transaction
    from magnetar.schema.parsing import ParsedSchema

FIRST, SECOND, CLASHING = avro(REQUIRED), avro(REQUIRED, OPTIONAL), avro(ADDED_REQUIRED)
SAME_AS_FIRST = avro(REQUIRED | {"doc": "a number"})
OTHER_TOPIC = replace(TOPIC, local_name="other")


class SlowMetadata(CachedMetadataStore):
    """A metadata store that waits for the test before it reports."""

    prompt = True

    def _submit(self, transaction: Transaction) -> None:
        if self.prompt:
            self.commit_all()

    def commit_all(self) -> None:
        self._committed(len(self._pending))

    def fail_all(self) -> None:
        self._failed(StorageError("disk"))

    def close(self) -> None:
        """Nothing to close."""


Refusal = TypeVar("Refusal", bound=Exception)


class World:
    """A registry on a loop of its own."""

    def __init__(self, **settings: object) -> None:
        self.loop = HandLoop()
        self.config = BrokerConfig.model_validate({"clusterName": "ewr", **settings})
        self.policies = broker_policies(self.config)
        self.metadata = SlowMetadata(HandClock(self.loop))
        self.registry = SchemaRegistry(self.config, self.metadata, self.loop)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self.loop.start(work)

    def registering(
        self, schema: SchemaInfo, topic: TopicName = TOPIC, turn: asyncio.Lock | None = None
    ) -> asyncio.Task[int]:
        return self.start(self.registry.register(topic, schema, self.policies, turn or asyncio.Lock()))

    def register(self, schema: SchemaInfo, topic: TopicName = TOPIC) -> int:
        return self.registering(schema, topic).result()

    def commit(self) -> None:
        """Report all commits that are pending now, and let follow what follows."""
        self.loop.call_soon(self.metadata.commit_all)
        self.loop.spin()

    def consume(self, schema: SchemaInfo, strategy: Strategy = Strategy.FULL) -> None:
        self.start(self.registry.check_consumer(TOPIC, schema, strategy, asyncio.Lock())).result()


def refused(work: asyncio.Task[Any], error: type[Refusal]) -> Refusal:
    with pytest.raises(error) as caught:
        work.result()
    return caught.value


def test_versions() -> None:
    world = World()
    assert [world.register(schema) for schema in (FIRST, SECOND, FIRST, SECOND)] == [0, 1, 0, 1]
    latest, first = world.registry.latest(TOPIC), world.registry.version(TOPIC, 0)
    assert latest is not None
    assert first is not None
    assert (latest.number, latest.info, first.info) == (1, SECOND, FIRST)
    assert world.registry.version(TOPIC, 2) is None
    assert [each.number for each in world.registry.all(TOPIC)] == [0, 1]
    assert world.registry.latest(OTHER_TOPIC) is None


def test_schemas_that_mean_the_same_have_one_version() -> None:
    world = World()
    world.register(FIRST)
    assert world.registry.known(TOPIC, SAME_AS_FIRST) is None
    assert world.register(SAME_AS_FIRST) == 0
    assert world.registry.known(TOPIC, SAME_AS_FIRST) == 0
    assert world.start(world.registry.find(TOPIC, SAME_AS_FIRST)).result() is None
    assert len(world.registry.all(TOPIC)) == 1


def test_a_known_version_does_not_outlive_its_schema() -> None:
    world = World()
    world.register(FIRST)
    world.register(SAME_AS_FIRST)
    assert world.start(world.registry.delete(TOPIC, force=False)).result() == 1
    assert not world.registry.has_schema(TOPIC)
    assert world.registry.known(TOPIC, SAME_AS_FIRST) is None
    assert world.registry.version(TOPIC, 0) is None
    assert world.register(CLASHING) == 2
    assert world.start(world.registry.delete(TOPIC, force=True)).result() is None
    assert world.register(CLASHING) == 0
    assert world.registry.known(TOPIC, SAME_AS_FIRST) is None


def test_a_version_that_is_deleted_during_a_check_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.register(FIRST)
    examine = registry_module._examine_new

    def examined(*arguments: Any) -> object:  # noqa: ANN401 - those of the function
        monkeypatch.undo()
        world.metadata.commit(world.registry.removal(TOPIC))
        return examine(*arguments)

    monkeypatch.setattr(registry_module, "_examine_new", examined)
    assert world.register(SAME_AS_FIRST) == 0
    assert [each.info for each in world.registry.all(TOPIC)] == [SAME_AS_FIRST]


def test_no_objects_are_collected_during_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    examine = registry_module._examine_new
    enabled: list[bool] = []

    def examined(*arguments: Any) -> object:  # noqa: ANN401 - those of the function
        enabled.append(gc.isenabled())
        return examine(*arguments)

    monkeypatch.setattr(registry_module, "_examine_new", examined)
    world.register(FIRST)
    refused(world.registering(CLASHING), IncompatibleSchemaError)
    assert enabled == [False, False]
    assert gc.isenabled()


def test_a_check_holds_one_of_the_existing_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(schemaCompatibilityStrategy="FULL_TRANSITIVE")
    recursive = {"name": "next", "type": ["null", "Flight"], "default": None}
    for number in range(6):
        world.register(avro(REQUIRED, recursive | {"n": number}))
    alive: weakref.WeakSet[Schema] = weakref.WeakSet()
    counts: list[int] = []

    def parsed(schema: SchemaInfo) -> ParsedSchema:
        counts.append(len(alive))
        found = parse(schema)
        assert isinstance(found.definition, AvroDefinition)
        alive.add(found.definition.schema)
        return found

    monkeypatch.setattr(registry_module, "parse", parsed)
    assert world.register(avro(REQUIRED, recursive | {"n": 6})) == 6
    assert counts == [0] * 6


def test_a_reader_of_a_deleted_topic_is_checked_again() -> None:
    world = World()
    world.register(FIRST)
    world.consume(SECOND)
    assert world.registry.admits_consumer(TOPIC, SECOND, Strategy.FULL)
    world.metadata.commit(world.registry.removal(TOPIC))
    world.register(CLASHING)
    assert not world.registry.admits_consumer(TOPIC, SECOND, Strategy.FULL)


def test_the_schemas_stay_if_a_partition_is_deleted() -> None:
    world = World()
    partition = replace(TOPIC, local_name="parted-partition-1")
    world.register(FIRST, partition)
    assert world.registry.removal(partition) == []
    assert len(world.registry.removal(partition.partitioned_topic)) == 1


def test_clashes_are_refused() -> None:
    world = World()
    world.register(FIRST)
    error = refused(world.registering(CLASHING), IncompatibleSchemaError)
    assert "the new schema cannot read old data: field added has no default" in str(error)
    refused(world.registering(SchemaInfo(SchemaType.AVRO, b"{")), InvalidSchemaError)
    assert len(world.registry.all(TOPIC)) == 1
    world.policies = replace(world.policies, schema_compatibility_strategy=Strategy.ALWAYS_COMPATIBLE)
    assert world.register(CLASHING) == 1


def test_only_transitive_strategies_compare_with_all() -> None:
    versions = [FIRST, avro(OPTIONAL), avro({"name": "id", "type": "string", "default": ""}, OPTIONAL)]
    for strategy, is_refused in ((Strategy.BACKWARD, False), (Strategy.BACKWARD_TRANSITIVE, True)):
        world = World(schemaCompatibilityStrategy=strategy.value)
        assert [world.register(each) for each in versions[:2]] == [0, 1]
        work = world.registering(versions[2])
        assert (work.exception() is not None) is is_refused


def test_new_schemas_can_be_forbidden() -> None:
    world = World(isAllowAutoUpdateSchemaEnabled=False)
    message = str(refused(world.registering(FIRST), IncompatibleSchemaError))
    assert message == "Schema not found and schema auto updating is disabled."
    world.policies = replace(world.policies, schema_auto_update=True)
    world.register(FIRST)
    world.policies = replace(world.policies, schema_auto_update=False)
    assert [world.register(each) for each in (FIRST, SAME_AS_FIRST)] == [0, 0]
    refused(world.registering(SECOND), IncompatibleSchemaError)


def test_consumers_must_read_the_latest() -> None:
    world = World()
    world.register(FIRST)
    world.register(SECOND)
    for reader in (FIRST, SECOND, avro(OPTIONAL)):
        world.consume(reader)
        assert world.registry.admits_consumer(TOPIC, reader, Strategy.FULL)
    with pytest.raises(IncompatibleSchemaError):
        world.consume(CLASHING)
    assert not world.registry.admits_consumer(TOPIC, CLASHING, Strategy.FULL)
    assert world.registry.admits_consumer(TOPIC, CLASHING, Strategy.ALWAYS_COMPATIBLE)
    with pytest.raises(IncompatibleSchemaError):
        world.consume(SECOND, Strategy.ALWAYS_INCOMPATIBLE)
    world.register(avro(REQUIRED, OPTIONAL, OPTIONAL | {"name": "third"}))
    assert not world.registry.admits_consumer(TOPIC, avro(OPTIONAL), Strategy.FULL), "the latest version is another one"


def test_a_consumer_with_a_schema_needs_one_in_the_topic() -> None:
    with pytest.raises(IncompatibleSchemaError, match=r"empty\(BYTES\) schema: new schema type AVRO"):
        World().consume(FIRST)


def test_a_version_is_told_when_it_is_durable() -> None:
    world = World()
    world.register(FIRST)
    world.metadata.prompt = False
    work, again = world.registering(SECOND), world.registering(SECOND)
    assert not work.done()
    assert not again.done()
    assert world.registry.known(TOPIC, SECOND) is None
    world.commit()
    world.commit()
    assert [work.result(), again.result()] == [1, 1]
    assert world.registry.known(TOPIC, SECOND) == 1


def test_a_version_of_a_client_that_left_is_told_when_it_is_durable() -> None:
    world = World()
    world.metadata.prompt = False
    world.registering(FIRST).cancel()
    world.loop.spin()
    again = world.registering(FIRST)
    assert world.registry.known(TOPIC, FIRST) is None
    assert not again.done()
    world.commit()
    assert again.result() == 0


def test_an_equivalent_version_of_a_client_that_left_is_told_when_it_is_durable() -> None:
    world = World()
    world.metadata.prompt = False
    world.registering(FIRST).cancel()
    world.loop.spin()
    again = world.registering(SAME_AS_FIRST)
    assert not again.done()
    world.loop.call_soon(world.metadata.fail_all)
    world.loop.spin()
    refused(again, StorageError)
    assert world.registry.known(TOPIC, SAME_AS_FIRST) is None


def test_a_version_that_cannot_be_stored_is_refused() -> None:
    world = World()
    world.metadata.prompt = False
    work = world.registering(FIRST)
    world.loop.call_soon(world.metadata.fail_all)
    world.loop.spin()
    refused(work, StorageError)
    assert world.registry.known(TOPIC, FIRST) is None
    assert not world.registry.has_schema(TOPIC)
    world.metadata.prompt = True
    assert world.register(FIRST) == 0


def test_a_client_has_one_check_at_a_time() -> None:
    world = World()
    world.metadata.prompt = False
    turn = asyncio.Lock()
    first, second = world.registering(FIRST, turn=turn), world.registering(FIRST, OTHER_TOPIC, turn=turn)
    third = world.registering(FIRST, replace(TOPIC, local_name="third"))
    world.commit()
    assert [first.done(), second.done(), third.done()] == [True, False, True]
    world.commit()
    assert second.result() == 0


def limit_of(work: asyncio.Task[Any], code: ServerError = ServerError.NotAllowedError) -> Limit | None:
    error = refused(work, RequestError)
    assert error.code is code
    assert error.limit is not None
    assert error.limit in str(error)
    return error.limit


def test_limits() -> None:
    world = World(maxSchemaSize=SECOND.size)
    world.register(SECOND)
    assert limit_of(world.registering(avro(REQUIRED, OPTIONAL, name="Flights"))) is Limit.SCHEMA_SIZE
    world = World(maxSchemaVersionsPerTopic=1)
    world.register(FIRST)
    assert limit_of(world.registering(SECOND)) is Limit.SCHEMA_VERSIONS
    assert world.register(SECOND, OTHER_TOPIC) == 0
    world = World(maxSchemasSizePerTopic=FIRST.size + SECOND.size + 2 * STORED_SIZE)
    world.register(FIRST)
    assert limit_of(world.registering(SECOND)) is Limit.SCHEMAS_SIZE, "three more bytes are stored with the first"
    assert world.register(SECOND, OTHER_TOPIC) == 0


def test_all_schemas_have_a_limit() -> None:
    world = World(maxSchemasSizeInMB=1, maxSchemasSizePerTopic=8 << 20)
    doc = "x" * (300 << 10)
    for number in range(3):
        world.register(avro(REQUIRED, doc=doc), replace(TOPIC, local_name=f"t{number}"))
    assert limit_of(world.registering(avro(REQUIRED, doc=doc))) is Limit.ALL_SCHEMAS_SIZE
    assert world.register(FIRST) == 0


def test_schemas_that_wait_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(registry_module, "PENDING_SIZE_MAX", FIRST.size + SECOND.size)
    world.metadata.prompt = False
    first, second = world.registering(FIRST), world.registering(SECOND)
    assert limit_of(world.registering(FIRST), ServerError.ServiceNotReady) is Limit.SCHEMAS_PENDING
    for _ in range(2):
        world.commit()
    assert (first.result(), second.result()) == (0, 1)
    world.metadata.prompt = True
    assert world.register(FIRST) == 0
