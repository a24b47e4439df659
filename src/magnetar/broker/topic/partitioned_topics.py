"""Partitioned topics: creation, addition of partitions and deletion, in steps.

Durable data determines the behaviour after a crash or a failed step:

* The number of partitions is written before the partitions of a new topic are created. A partition that is missing is
  created when a client asks for it, or when the request is repeated.
* The number is raised after all added partitions exist with their subscriptions. Until then no client publishes to
  them. A repeated request finds them and continues.
* A topic is marked as deleted before its first partition is deleted. From then on no client may attach to its
  partitions, and the broker deletes the rest (``finish_deletions``), also if the request is never repeated.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Protocol, Self
from weakref import WeakValueDictionary

import structlog

from magnetar.base.errors import MagnetarError, RequestError, ServerError, StorageError, TopicLoadError
from magnetar.metadata.policies import PartitionedTopicMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.topic import Topic
    from magnetar.metadata.policies import Policies

log = structlog.get_logger(__name__)

COPIES_MAX = 10
"""Maximum number of rounds in which changing subscriptions of partition 0 are copied; then the update is refused."""


@dataclass(frozen=True, slots=True)
class _Model:
    """State that added partitions copy from partition 0."""

    subscriptions: dict[str, bool]
    """Durable subscriptions, and whether each is replicated."""
    switched_off: list[str]

    @classmethod
    def of(cls, topic: Topic) -> Self:
        """Return the present state of the topic."""
        subscriptions = {each.name: each.is_replicated for each in topic.subscriptions.values() if each.is_durable}
        return cls(subscriptions, list(topic.progress.switched_off))


class LoadedTopics(Protocol):
    """The topics of this cluster with a log: partitions, and topics that are not partitioned."""

    @property
    def environment(self) -> Environment:
        """Objects that all parts of the broker share."""
        ...

    @property
    def loaded(self) -> Mapping[TopicName, Topic]:
        """The loaded topics."""
        ...

    def exists(self, name: TopicName) -> bool:
        """Return whether a topic exists, loaded or not."""
        ...

    def get_or_create(self, name: TopicName, *, is_added: bool = False) -> Topic:
        """Return the topic, load or create it; raises RequestError if it is missing and may not be created.

        With ``is_added``, it may be a partition that is being added.
        """
        ...

    def partitions_of(self, name: TopicName) -> int | None:
        """Return the number of partitions, 0 for a topic that is not partitioned; None if neither exists."""
        ...

    def check_served(self, name: TopicName) -> Policies:
        """Return the policies of the topic's namespace; raises RequestError if this cluster does not serve it."""
        ...

    def must_wait_to_delete(self, name: TopicName) -> bool:
        """Return whether the topic cannot be deleted now. Raises RequestError if it cannot be loaded."""
        ...

    async def ready(self, name: TopicName) -> None:
        """Return when clients may attach to the topic, if it exists; raises RequestError like ``must_wait``."""
        ...

    async def unloaded(self, name: TopicName) -> None:
        """Return when a topic is not being unloaded."""
        ...

    def deletion(self, name: TopicName) -> Generator[None, None, asyncio.Future[None]]:
        """Delete a topic in steps; return a future of the time when that is durable."""
        ...


class PartitionedTopics:
    """The partitioned topics of this cluster. Used on the event loop's thread.

    ``creation``, ``addition`` and ``deletion`` return steps, between which other work runs. Only one of them runs for
    a topic at a time: the caller holds ``alone``.
    """

    def __init__(self, topics: LoadedTopics) -> None:
        """Create the collection; no operation is in progress."""
        self._topics = topics
        self._environment = topics.environment
        self._resources = topics.environment.resources.partitioned_topics
        self._changes: WeakValueDictionary[TopicName, asyncio.Lock] = WeakValueDictionary()
        """Locks that are held or waited for."""
        self._deleting: dict[TopicName, None] = {}
        """Topics that are being deleted; no client may attach to their partitions."""
        self._is_searched = False
        """Whether the topics that an earlier run of this broker marked as deleted were searched for."""

    def alone(self, name: TopicName) -> asyncio.Lock:
        """Return the lock for changes of a partitioned topic."""
        lock = self._changes.get(name)
        if lock is None:
            lock = self._changes[name] = asyncio.Lock()
        return lock

    def check_open(self, name: TopicName) -> None:
        """Raise RequestError with ServiceNotReady for a partitioned topic, or a partition, that is being deleted."""
        whole = name.partitioned_topic
        if whole not in self._deleting:
            if name in self._topics.loaded:
                return
            stored = self._resources.get(whole)
            if stored is None or not stored.deleted:
                return
        raise RequestError(ServerError.ServiceNotReady, f"Topic {whole} is being deleted")

    # -- creating -----------------------------------------------------------------------------------------------

    def creation(self, name: TopicName, partitions: int, properties: Mapping[str, str]) -> Generator[None, None, None]:
        """Create a partitioned topic; if it exists with that number of partitions, create the missing ones."""
        if not self._resources.exists(name):
            self._write(name, partitions, properties)
        for index in range(partitions):
            partition = name.partition(index)
            if not self._topics.exists(partition):
                self._topics.get_or_create(partition)
            yield
        if not self._resources.exists(name):
            raise RequestError(ServerError.PersistenceError, f"Topic {name} could not be stored: try again later")

    def is_incomplete(self, name: TopicName, partitions: int) -> Generator[None, None, bool]:
        """Return whether a topic with that number of partitions lacks some, because its creation was interrupted."""
        stored = self._resources.get(name)
        if stored is None or stored.deleted or stored.partitions != partitions:
            return False
        for index in range(partitions):
            if not self._topics.exists(name.partition(index)):
                return True
            yield
        return False

    def create_for_client(self, name: TopicName, partitions: int) -> None:
        """Create a topic for a client: it exists on return; many partitions are created in later turns."""
        self._write(name, partitions, {})

        def create(index: int) -> None:
            partition = name.partition(index)
            if self._topics.exists(partition) or not self._resources.exists(name):
                return
            try:
                self._topics.get_or_create(partition)
            except MagnetarError as error:  # the partition is created when a client requests it
                log.warning("partition_not_created", topic=str(partition), error=str(error))

        self._environment.sliced.start((self, name), range(partitions), create)

    async def grow(self, name: TopicName, partitions: int) -> None:
        """Ensure at least that number of partitions; a missing topic is created. Raises RequestError."""
        async with self.alone(name):
            self.check_open(name)
            known = self._topics.partitions_of(name)
            if known is None:
                await self._environment.slices.run(self.creation(name, partitions, {}))
            elif 0 < known < partitions:
                await self.add(name, partitions)
            await self._environment.recorded()

    def _write(self, name: TopicName, partitions: int, properties: Mapping[str, str]) -> None:
        metadata = PartitionedTopicMetadata(partitions=partitions, properties=dict(properties) or None)
        self._resources.create(name, metadata)

    # -- adding partitions --------------------------------------------------------------------------------------

    async def add(self, name: TopicName, partitions: int) -> None:
        """Raise the number of partitions of a topic; see ``addition``."""
        before = self._topics.partitions_of(name) or 0
        for index in (0, *range(before, partitions)):
            await self._topics.ready(name.partition(index))
        await self._environment.slices.run(self.addition(name, partitions))

    def addition(self, name: TopicName, partitions: int) -> Generator[None, None, None]:
        """Raise the number of partitions of a topic; missing partitions are created.

        Added partitions get the subscriptions of partition 0, also those whose replication is disabled. Raises
        RequestError with ServiceNotReady if the subscriptions keep changing.
        """
        before = self._topics.partitions_of(name) or 0
        model = _Model.of(self._topics.get_or_create(name.partition(0)))
        added: list[TopicName] = []
        for index in range(partitions):
            partition = name.partition(index)
            if index >= before or not self._topics.exists(partition):
                added.append(partition)
            yield
        for _ in range(COPIES_MAX):
            for partition in added:
                yield from self._copy(model, partition)
            copied, model = model, _Model.of(self._topics.get_or_create(name.partition(0)))
            if model == copied:
                break
        else:
            message = f"The subscriptions of {name.partition(0)} keep changing: try again later"
            raise RequestError(ServerError.ServiceNotReady, message)
        self._resources.update(name, lambda found: found.model_copy(update={"partitions": partitions}))

    def _copy(self, model: _Model, name: TopicName) -> Generator[None, None, None]:
        """Copy the state of partition 0 to an added partition; the topic may be unloaded between two steps."""
        partition = self._topics.get_or_create(name, is_added=True)
        for switched_off in model.switched_off:
            if switched_off not in partition.subscriptions:
                partition.progress.switched_off.add(switched_off, partition.subscriptions)
        yield
        for subscription, is_replicated in model.subscriptions.items():
            partition = self._topics.get_or_create(name, is_added=True)
            if subscription not in partition.subscriptions:
                created = partition.create_subscription(subscription, partition.log.before_first())
                if is_replicated:
                    partition.set_replicated(created, replicated=True)
                yield

    # -- deleting -----------------------------------------------------------------------------------------------

    async def delete(self, name: TopicName, check: Callable[[TopicName], None]) -> None:
        """Delete a partitioned topic and its partitions; continue an interrupted deletion.

        ``check`` raises for a partition that must not be deleted. Nothing is deleted then, nor in a namespace that this
        cluster does not serve. No client may attach to a checked partition. The caller holds ``alone``.
        """
        self._topics.check_served(name)
        self._deleting[name] = None
        stored = self._resources.get(name)
        if stored is None or not stored.deleted:
            try:
                left = await self._environment.slices.run(self._partitions(name))
                while left:
                    left = await self._environment.slices.run(self._check_each(left, check))
                    for partition in left:
                        await self._topics.unloaded(partition)
                await self._resources.update(name, lambda found: found.model_copy(update={"deleted": True}))
            except BaseException:
                del self._deleting[name]
                raise
        await self._finish(name)

    async def finish_deletions(self) -> None:
        """Complete deletions that failed or were interrupted by a stop of the broker."""
        if not self._is_searched:
            for name in await self._environment.slices.run(self._marked()):
                self._deleting[name] = None
            self._is_searched = True
        for name in tuple(self._deleting):
            async with self.alone(name):
                stored = self._resources.get(name)
                if stored is None or not stored.deleted:
                    continue
                try:
                    await self._finish(name)
                except MagnetarError as error:
                    log.warning("deletion_not_finished", topic=str(name), error=str(error))

    def _check_each(
        self, names: Sequence[TopicName], check: Callable[[TopicName], None]
    ) -> Generator[None, None, list[TopicName]]:
        """Check partitions; return those that are being loaded or unloaded, which can be checked afterwards."""
        left: list[TopicName] = []
        for name in names:
            if self._must_wait(name):
                left.append(name)
            else:
                check(name)
            yield
        return left

    async def _finish(self, name: TopicName) -> None:
        """Delete the partitions of a topic that is marked as deleted, and then its metadata."""
        run = self._environment.slices.run
        left = await run(self._partitions(name))
        while left:
            left, deleted = await run(self._delete_each(left))
            for outcome in await asyncio.gather(*deleted, return_exceptions=True):
                if outcome is not None:
                    raise outcome
            for partition in left:
                await self._topics.unloaded(partition)
        await self._environment.resources.topic_policies.forget(name)
        await self._environment.schemas.delete(name, force=True)
        await self._resources.delete(name)
        del self._deleting[name]

    def _delete_each(
        self, names: Sequence[TopicName]
    ) -> Generator[None, None, tuple[list[TopicName], list[asyncio.Future[None]]]]:
        """Delete partitions; return those that are being loaded or unloaded, which can be deleted afterwards.

        Returns the futures of the deletions as well.
        """
        left: list[TopicName] = []
        deleted: list[asyncio.Future[None]] = []
        for name in names:
            if self._must_wait(name):
                left.append(name)
            elif self._topics.exists(name):
                deleted.append((yield from self._topics.deletion(name)))
            yield
        return left, deleted

    def _must_wait(self, partition: TopicName) -> bool:
        try:
            return self._topics.must_wait_to_delete(partition)
        except TopicLoadError:
            return False  # it can still be deleted

    def _partitions(self, name: TopicName) -> Generator[None, None, list[TopicName]]:
        """Find the existing partitions, including those that an interrupted update added."""
        partitions = self._topics.partitions_of(name) or 0
        found: list[TopicName] = []
        for index in count():
            partition = name.partition(index)
            if self._topics.exists(partition):
                found.append(partition)
            elif index >= partitions:
                break
            yield
        return found

    def _marked(self) -> Generator[None, None, list[TopicName]]:
        """Search for topics that are marked as deleted."""
        resources = self._environment.resources
        found: list[TopicName] = []
        for tenant in resources.tenants.names():
            for namespace in resources.namespaces.of_tenant(tenant):
                for name in self._resources.of_namespace(namespace):
                    with suppress(StorageError):  # an unreadable topic refuses its own clients
                        stored = self._resources.get(name)
                        if stored is not None and stored.deleted:
                            found.append(name)
                    yield
        return found


def partitions_to_create(environment: Environment, name: TopicName, *, create: bool) -> int:
    """Return the number of partitions that a missing topic gets; 0 if it is not partitioned.

    Raises RequestError with TopicNotFound without ``create``, or if clients may not create topics.
    """
    creation = environment.policies.of(name).auto_topic_creation
    if not create or not creation.allowAutoTopicCreation:
        raise RequestError(ServerError.TopicNotFound, f"Topic {name} does not exist")
    if creation.topicType == "non-partitioned":
        return 0
    return min(creation.defaultNumPartitions or 1, environment.config.partitions_max)
