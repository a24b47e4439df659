"""Partitioned topics: they are created, get more partitions and are deleted in steps.

What is durable decides what happens after a crash, or after a step that failed:

* The number of partitions is written before the partitions of a new topic are created. A partition that is missing is
  created when a client asks for it, or when the request is repeated.
* The number is raised after all partitions that are added exist with their subscriptions. Until then no client
  publishes to them. A repeated request finds them and goes on.
* A topic is marked as deleted before its first partition is deleted. From then on no client is let into its partitions,
  and the broker deletes the rest (``finish_deletions``), also if the request is never repeated.
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
"""Rounds in which the subscriptions of partition 0 are copied, while they change, before an update is refused."""


@dataclass(frozen=True, slots=True)
class _Model:
    """What partitions that are added get from partition 0."""

    subscriptions: dict[str, bool]
    """The durable ones, and whether each is replicated."""
    switched_off: list[str]

    @classmethod
    def of(cls, topic: Topic) -> Self:
        """As the topic is now."""
        subscriptions = {each.name: each.is_replicated for each in topic.subscriptions.values() if each.is_durable}
        return cls(subscriptions, list(topic.progress.switched_off))


class LoadedTopics(Protocol):
    """The topics of this cluster that have no partitions, partitions among them."""

    @property
    def environment(self) -> Environment:
        """What every part of the broker shares."""
        ...

    @property
    def loaded(self) -> Mapping[TopicName, Topic]:
        """The topics that are loaded."""
        ...

    def exists(self, name: TopicName) -> bool:
        """Whether a topic is there, loaded or not."""
        ...

    def get_or_create(self, name: TopicName) -> Topic:
        """The topic, loaded or created; raises RequestError if it is missing and may not be created."""
        ...

    def partitions_of(self, name: TopicName) -> int | None:
        """Number of partitions, 0 for a topic without; None when there is no such topic."""
        ...

    def check_served(self, name: TopicName) -> Policies:
        """The policies of the topic's namespace; raises RequestError if this cluster does not serve it."""
        ...

    def must_wait(self, name: TopicName) -> bool:
        """Whether nobody is let into the topic now. Raises RequestError if it cannot be loaded."""
        ...

    async def unloaded(self, name: TopicName) -> None:
        """Return once a topic is not being unloaded."""
        ...

    def deletion(self, name: TopicName) -> Generator[None, None, None]:
        """Delete a topic in steps."""
        ...


class PartitionedTopics:
    """The partitioned topics of this cluster. Everything happens on the event loop's thread.

    ``creation``, ``addition`` and ``deletion`` return steps, between which clients have their turns. Only one of them
    runs for a topic at a time: the caller holds ``alone``.
    """

    def __init__(self, topics: LoadedTopics) -> None:
        """Nothing is under way."""
        self._topics = topics
        self._environment = topics.environment
        self._resources = topics.environment.resources.partitioned_topics
        self._changes: WeakValueDictionary[TopicName, asyncio.Lock] = WeakValueDictionary()
        """The locks that somebody holds or waits for."""
        self._deleting: dict[TopicName, None] = {}
        """Topics that are deleted, or about to be: no client is let into their partitions."""
        self._is_searched = False
        """Whether all topics are known that an earlier run of this broker marked as deleted."""

    def alone(self, name: TopicName) -> asyncio.Lock:
        """The lock for changes of a partitioned topic."""
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
        """Create a partitioned topic; of one that exists with so many partitions, those that are missing."""
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
        """Whether a topic was to have so many partitions and some are missing: its creation was not finished."""
        stored = self._resources.get(name)
        if stored is None or stored.deleted or stored.partitions != partitions:
            return False
        for index in range(partitions):
            if not self._topics.exists(name.partition(index)):
                return True
            yield
        return False

    def create_for_client(self, name: TopicName, partitions: int) -> None:
        """Create a topic that a client has asked for: it is there on return, many partitions come in later turns."""
        self._write(name, partitions, {})

        def create(index: int) -> None:
            partition = name.partition(index)
            if self._topics.exists(partition) or not self._resources.exists(name):
                return
            try:
                self._topics.get_or_create(partition)
            except MagnetarError as error:  # it is created when the client asks for it
                log.warning("partition_not_created", topic=str(partition), error=str(error))

        self._environment.sliced.start((self, name), range(partitions), create)

    async def grow(self, name: TopicName, partitions: int) -> None:
        """Have at least so many partitions; a topic that does not exist is created. Raises RequestError."""
        async with self.alone(name):
            self.check_open(name)
            known = self._topics.partitions_of(name)
            if known is None:
                await self._environment.slices.run(self.creation(name, partitions, {}))
            elif 0 < known < partitions:
                await self._environment.slices.run(self.addition(name, partitions))
            await self._environment.recorded()

    def _write(self, name: TopicName, partitions: int, properties: Mapping[str, str]) -> None:
        metadata = PartitionedTopicMetadata(partitions=partitions, properties=dict(properties) or None)
        self._resources.create(name, metadata)

    # -- adding partitions --------------------------------------------------------------------------------------

    def addition(self, name: TopicName, partitions: int) -> Generator[None, None, None]:
        """Let a partitioned topic have so many partitions, not fewer than it has; those that are missing are created.

        They come with the subscriptions of partition 0. What is switched off there is switched off on them. Raises
        RequestError with ServiceNotReady if the subscriptions do not stop to change.
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
        """Give a partition that is added what partition 0 has; the topic may be unloaded between two steps."""
        partition = self._topics.get_or_create(name)
        for switched_off in model.switched_off:
            if switched_off not in partition.subscriptions:
                partition.progress.switched_off.add(switched_off, partition.subscriptions)
        yield
        for subscription, is_replicated in model.subscriptions.items():
            partition = self._topics.get_or_create(name)
            if subscription not in partition.subscriptions:
                created = partition.create_subscription(subscription, partition.log.before_first())
                if is_replicated:
                    partition.set_replicated(created, replicated=True)
                yield

    # -- deleting -----------------------------------------------------------------------------------------------

    async def delete(self, name: TopicName, check: Callable[[TopicName], None]) -> None:
        """Delete a partitioned topic and its partitions; of a deletion that was not finished, the rest.

        ``check`` raises for a partition that must not be deleted. Nothing is deleted then, nor in a namespace that this
        cluster does not serve. No client enters a partition after it was checked. The caller holds ``alone``.
        """
        self._topics.check_served(name)
        self._deleting[name] = None
        stored = self._resources.get(name)
        if stored is None or not stored.deleted:
            try:
                await self._environment.slices.run(self._check_each(name, check))
                await self._resources.update(name, lambda found: found.model_copy(update={"deleted": True}))
            except BaseException:
                del self._deleting[name]
                raise
        await self._finish(name)

    async def finish_deletions(self) -> None:
        """Delete the rest of the topics whose deletion was not finished, because it failed or the broker stopped."""
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

    def _check_each(self, name: TopicName, check: Callable[[TopicName], None]) -> Generator[None, None, None]:
        for partition in (yield from self._partitions(name)):
            check(partition)
            yield

    async def _finish(self, name: TopicName) -> None:
        """Delete the partitions of a topic that is marked as deleted, and then what is known of the topic."""
        run = self._environment.slices.run
        left = await run(self._partitions(name))
        while left:
            left = await run(self._delete_each(left))
            for partition in left:
                await self._topics.unloaded(partition)
        await self._environment.resources.topic_policies.forget(name)
        await self._resources.delete(name)
        del self._deleting[name]

    def _delete_each(self, names: Sequence[TopicName]) -> Generator[None, None, list[TopicName]]:
        """Delete partitions, and return those that are being loaded or unloaded: they can be deleted afterwards."""
        left: list[TopicName] = []
        for name in names:
            if self._must_wait(name):
                left.append(name)
            elif self._topics.exists(name):
                yield from self._topics.deletion(name)
            yield
        return left

    def _must_wait(self, partition: TopicName) -> bool:
        try:
            return self._topics.must_wait(partition)
        except TopicLoadError:
            return False  # it can be deleted all the same

    def _partitions(self, name: TopicName) -> Generator[None, None, list[TopicName]]:
        """Find the partitions that exist, with those that an update added that was not finished."""
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
        """Find the topics that are marked as deleted."""
        resources = self._environment.resources
        found: list[TopicName] = []
        for tenant in resources.tenants.names():
            for namespace in resources.namespaces.of_tenant(tenant):
                for name in self._resources.of_namespace(namespace):
                    with suppress(StorageError):  # one that cannot be read is refused to its own clients
                        stored = self._resources.get(name)
                        if stored is not None and stored.deleted:
                            found.append(name)
                    yield
        return found
