"""The schema registry: registers new schemas, and checks those of consumers.

A definition is parsed and compared on one thread of its own, since a large one takes a second. The changes of a topic
follow each other, and a client has one check at a time, so that many large schemas of one client do not delay others
for longer than one check.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, NoReturn, TypeVar

from magnetar.base.errors import IncompatibleSchemaError, RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.metadata.schemas import STORED_SIZE, StoredSchemas
from magnetar.schema.compatibility import check, strategy_for_consumers
from magnetar.schema.parsing import parse, parse_new
from magnetar.schema.strategy import SchemaCompatibilityStrategy as Strategy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.names import TopicName
    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.metadata.awaiting import Commit
    from magnetar.metadata.effective import EffectivePolicies
    from magnetar.metadata.schemas import SchemaVersion, StoredSchema
    from magnetar.metadata.store import Delete, MetadataStore
    from magnetar.schema.info import SchemaInfo, SchemaType
    from magnetar.schema.parsing import ParsedSchema

PENDING_SIZE_MAX: Final = 16 << 20
"""Maximum bytes of all schemas that wait for a check, over all clients."""

_RESULTS_MAX: Final = 10_000
"""Maximum number of cached results of checks, some 500 bytes each."""

Key = TypeVar("Key")
Result = TypeVar("Result")


class _Results(Generic[Key, Result]):
    """The newest results of checks."""

    def __init__(self) -> None:
        self._results: dict[Key, Result] = {}

    def clear(self) -> None:
        self._results.clear()

    def get(self, key: Key) -> Result | None:
        return self._results.get(key)

    def add(self, key: Key, result: Result) -> None:
        self._results[key] = result
        if len(self._results) > _RESULTS_MAX:
            del self._results[next(iter(self._results))]


@dataclass(slots=True)
class _Changes:
    """Changes and checks of one topic, in progress and waiting."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


@dataclass(frozen=True, slots=True)
class _Key:
    """A schema that was checked for a topic."""

    topic: TopicName
    type: int
    digest: str

    @classmethod
    def of(cls, topic: TopicName, schema: SchemaInfo) -> _Key:
        return cls(topic.partitioned_topic, schema.type, schema.digest)


class SchemaRegistry:
    """The schemas of all topics. Used on the event loop's thread."""

    def __init__(self, config: BrokerConfig, metadata: MetadataStore, loop: asyncio.AbstractEventLoop) -> None:
        """Keep schemas in ``metadata``; the thread starts with the first check."""
        self._config = config
        self._loop = loop
        self._metadata = metadata
        self._stored = StoredSchemas(metadata)
        self._thread = ThreadPoolExecutor(1, "magnetar-schemas")
        self._pending_size = 0
        self._changes: dict[TopicName, _Changes] = {}
        self._recording: Counter[TopicName] = Counter()
        """Changes that are not durable yet."""
        self._fingerprints: _Results[tuple[SchemaType, str], str] = _Results()
        """Fingerprints of schemas that are equivalent to registered ones with other digests."""
        self._readers: _Results[tuple[_Key, Strategy, int], bool] = _Results()
        """Schemas of consumers that were compatible, with the strategy and the latest version of the topic."""

    def close(self) -> None:
        """Start no further check."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    # -- reading ------------------------------------------------------------------------------------------------

    def has_schema(self, topic: TopicName) -> bool:
        """Return whether the topic has a schema."""
        return bool(self._stored.versions(topic))

    def latest(self, topic: TopicName) -> StoredSchema | None:
        """Return the latest version, None if the topic has no schema."""
        versions = self._stored.versions(topic)
        return self._stored.read(topic, versions[-1]) if versions else None

    def version(self, topic: TopicName, number: int) -> StoredSchema | None:
        """Return one version, None if the topic does not have it."""
        found = next((each for each in self._stored.versions(topic) if each.number == number), None)
        return self._stored.read(topic, found) if found is not None else None

    def all(self, topic: TopicName) -> list[StoredSchema]:
        """Return all versions, oldest first."""
        return [self._stored.read(topic, each) for each in self._stored.versions(topic)]

    async def find(self, topic: TopicName, schema: SchemaInfo) -> int | None:
        """Return the version with this definition, None if there is none."""
        await self._stored.recorded()
        return _with_digest(self._stored.versions(topic), schema)

    def known(self, topic: TopicName, schema: SchemaInfo) -> int | None:
        """Return the version equivalent to a schema; None if only ``register`` can determine it."""
        if topic.partitioned_topic in self._recording:
            return None
        return self._known(schema, self._stored.versions(topic))

    def _known(self, schema: SchemaInfo, versions: Sequence[SchemaVersion]) -> int | None:
        if not versions:
            return None
        digest, kind = schema.digest, schema.type
        fingerprint = self._fingerprints.get((kind, digest))
        return next((each.number for each in versions if each.type is kind and each.is_of(digest, fingerprint)), None)

    def admits_consumer(self, topic: TopicName, schema: SchemaInfo, strategy: Strategy) -> bool:
        """Return whether a consumer's schema is known to be compatible; ``check_consumer`` decides if it is not."""
        versions = self._stored.versions(topic)
        if not versions:
            return False
        if strategy is Strategy.ALWAYS_COMPATIBLE:
            return True
        latest = versions[-1]
        if strategy_for_consumers(strategy) is Strategy.BACKWARD and _with_digest([latest], schema) is not None:
            return True
        return self._readers.get((_Key.of(topic, schema), strategy, latest.number)) is not None

    # -- changes ------------------------------------------------------------------------------------------------

    async def register(
        self, topic: TopicName, schema: SchemaInfo, policies: EffectivePolicies, turn: asyncio.Lock
    ) -> int:
        """Return the equivalent version, or store a new one; durable on return.

        Raises RequestError if the schema is refused. ``turn`` belongs to the client.
        """
        strategy = policies.schema_compatibility_strategy
        async with self._alone(topic, schema, turn):
            while True:
                versions = self._stored.versions(topic)
                found = self._known(schema, versions)
                if found is not None:
                    await self._stored.recorded()
                    return found
                compared = versions if strategy.is_transitive else versions[-1:]
                infos = [self._stored.read(topic, each).info for each in compared]
                work = partial(_examine_new, schema, versions, infos if policies.schema_auto_update else [], strategy)
                equal, fingerprint = await self._on_thread(work)
                if versions == self._stored.versions(topic):
                    break  # otherwise the topic was deleted meanwhile
            if equal is not None:
                await self._stored.recorded()
                self._fingerprints.add((schema.type, schema.digest), fingerprint)
                return equal
            if not policies.schema_auto_update:
                message = "Schema not found and schema auto updating is disabled."
                raise IncompatibleSchemaError(message)
            self._check_room(topic, schema, len(versions))
            return await self._record(topic, *self._stored.add(topic, schema, fingerprint))

    async def check_consumer(
        self, topic: TopicName, schema: SchemaInfo, strategy: Strategy, turn: asyncio.Lock
    ) -> None:
        """Raise RequestError unless a consumer with ``schema`` may read a topic that has schemas."""
        async with self._alone(topic, schema, turn):
            versions = self._stored.versions(topic)
            if not versions:
                message = (
                    "Failed to add schema to an active topic with empty(BYTES) schema: new schema type "
                    f"{schema.type.name}"
                )
                raise IncompatibleSchemaError(message)
            checked = strategy_for_consumers(strategy)
            compared = versions[-1:] if checked is Strategy.BACKWARD else versions
            infos = [self._stored.read(topic, each).info for each in compared]
            await self._on_thread(partial(_examine, schema, infos, checked))
            if versions == self._stored.versions(topic):
                self._readers.add((_Key.of(topic, schema), strategy, versions[-1].number), True)  # noqa: FBT003

    async def check_new(self, topic: TopicName, schema: SchemaInfo, strategy: Strategy, turn: asyncio.Lock) -> None:
        """Raise RequestError unless ``schema`` could be registered."""
        async with self._alone(topic, schema, turn):
            versions = self._stored.versions(topic)
            compared = versions if strategy.is_transitive else versions[-1:]
            if not strategy.is_transitive and _with_digest(compared, schema) is not None:
                return
            infos = [self._stored.read(topic, each).info for each in compared]
            await self._on_thread(partial(_examine, schema, infos, strategy))

    async def delete(self, topic: TopicName, *, force: bool) -> int | None:
        """Delete all versions; return the version of the deletion, None with ``force``, which begins at 0 again."""
        async with self._locked(topic):
            self._readers.clear()  # their versions may be used again
            change = (None, self._stored.forget(topic)) if force else self._stored.delete(topic)
            return await self._record(topic, *change)

    def removal(self, topic: TopicName) -> list[Delete]:
        """Return the operations that remove all schemas with a deleted topic; the caller commits them at once.

        A topic that a client creates again meanwhile must not find them. Schemas stay if only a partition is deleted.
        """
        if topic != topic.partitioned_topic:
            return []
        self._readers.clear()
        return self._stored.removal(topic)

    # -- one after the other ------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _alone(self, topic: TopicName, schema: SchemaInfo, turn: asyncio.Lock) -> AsyncIterator[None]:
        """Wait for the turn of the client and of the topic."""
        size = schema.size
        if size > self._config.maxSchemaSize:
            _refuse(f"The schema has {size} bytes", Limit.SCHEMA_SIZE)
        if self._pending_size + size > PENDING_SIZE_MAX:
            message = f"Too many schemas wait to be checked; try again later ({Limit.SCHEMAS_PENDING})"
            raise RequestError(ServerError.ServiceNotReady, message, Limit.SCHEMAS_PENDING)
        self._pending_size += size
        try:
            async with turn, self._locked(topic):
                yield
        finally:
            self._pending_size -= size

    @asynccontextmanager
    async def _locked(self, topic: TopicName) -> AsyncIterator[None]:
        key = topic.partitioned_topic
        changes = self._changes.setdefault(key, _Changes())
        changes.users += 1
        try:
            async with changes.lock:
                yield
        finally:
            changes.users -= 1
            if not changes.users:
                del self._changes[key]

    async def _record(self, topic: TopicName, number: Result, commit: Commit) -> Result:
        """Return ``number`` when a change is durable."""
        self._recording[topic.partitioned_topic] += 1

        def reported(_: StorageError | None) -> None:
            self._recording[topic.partitioned_topic] -= 1
            if not self._recording[topic.partitioned_topic]:
                del self._recording[topic.partitioned_topic]

        self._metadata.barrier(reported)  # even without a waiting caller
        await commit
        return number

    async def _on_thread(self, work: Callable[[], Result]) -> Result:
        return await self._loop.run_in_executor(self._thread, _without_collections, work)

    def _check_room(self, topic: TopicName, schema: SchemaInfo, versions: int) -> None:
        config, size = self._config, schema.size + STORED_SIZE
        if versions >= config.maxSchemaVersionsPerTopic:
            _refuse(f"The topic has {versions} versions of its schema", Limit.SCHEMA_VERSIONS)
        if self._stored.size_of(topic) + size > config.maxSchemasSizePerTopic:
            _refuse("The schemas of the topic take too much memory", Limit.SCHEMAS_SIZE)
        if self._stored.size + size > config.maxSchemasSizeInMB << 20:
            _refuse("The schemas of all topics take too much memory", Limit.ALL_SCHEMAS_SIZE)


def _with_digest(versions: Sequence[SchemaVersion], schema: SchemaInfo) -> int | None:
    digest = schema.digest
    return next((each.number for each in versions if each.digest == digest and each.type is schema.type), None)


def _without_collections(work: Callable[[], Result]) -> Result:
    """Do work with many objects; a collection of cycles holds the interpreter's lock, 0.2 s for those of one schema."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return work()
    finally:
        if was_enabled:
            gc.enable()


def _examine_new(
    schema: SchemaInfo, versions: Sequence[SchemaVersion], existing: Sequence[SchemaInfo], strategy: Strategy
) -> tuple[int | None, str]:
    """Parse a schema and compare it with the ``existing`` ones; return the equivalent version, and its fingerprint."""
    parsed = parse_new(schema)
    fingerprint = parsed.fingerprint
    for each in versions:
        if each.type is schema.type and each.fingerprint == fingerprint:
            return each.number, fingerprint
    _compare(existing, parsed, strategy)
    return None, fingerprint


def _examine(schema: SchemaInfo, existing: Sequence[SchemaInfo], strategy: Strategy) -> None:
    _compare(existing, parse(schema), strategy)


def _compare(existing: Iterable[SchemaInfo], new: ParsedSchema, strategy: Strategy) -> None:
    """Raise IncompatibleSchemaError unless ``new`` may follow each of the ``existing`` schemas."""
    for each in existing:
        check(map(parse, [each]), new, strategy)
        gc.collect(0)  # frees the definition; a record that contains itself is in cycles


def _refuse(message: str, limit: Limit) -> NoReturn:
    raise RequestError(ServerError.NotAllowedError, f"{message} ({limit})", limit)
