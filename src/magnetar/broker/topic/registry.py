"""Registry of all topics: finding, loading, creating and deleting them."""

from __future__ import annotations

from itertools import count, islice
from typing import TYPE_CHECKING

from magnetar.base.errors import InvalidTopicNameError, RequestError, ServerError, TopicLoadError
from magnetar.base.limits import Limit
from magnetar.base.names import is_longer, too_long
from magnetar.broker.environment import settle
from magnetar.broker.migration_fence.stored_fence import check_stored_fence
from magnetar.broker.topic.damaged_topics import delete_unloaded
from magnetar.broker.topic.linked_topics import LinkedTopics
from magnetar.broker.topic.loader import TopicLoader
from magnetar.broker.topic.partitioned_topics import PartitionedTopics, partitions_to_create
from magnetar.broker.topic.policy_changes import PolicyChanges
from magnetar.broker.topic.topic_lists import TopicLists
from magnetar.metadata.policies import Addresses

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Generator

    from magnetar.base.errors import StorageError
    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.lifecycle import OnChange
    from magnetar.broker.topic.load_failures import LoadFailures
    from magnetar.broker.topic.topic import Topic
    from magnetar.metadata.policies import ClusterData, Policies


class TopicRegistry:
    """The topics of this cluster, loaded on request. Used on the event loop's thread."""

    def __init__(self, environment: Environment, addresses: ClusterData) -> None:
        """Create the registry; no topic is loaded yet."""
        self.environment = environment
        self.addresses = Addresses(addresses)
        """The URLs of this broker."""
        self._loader = TopicLoader(environment, lambda name: self.linked.load_again(name))  # noqa: PLW0108 - made below
        self.partitioned = PartitionedTopics(self)
        self.linked = LinkedTopics(self)
        """The replicated topics."""
        self.lists = TopicLists(environment.resources.topics, environment.sliced, environment.limit_hits)
        self._producer_numbers = count()
        self._consumer_numbers = count()
        # Names must be unique among live producers of all clusters, and among all runs of this broker.
        self._run = f"{environment.cluster}-{int(environment.clock.now() * 1000):x}"
        self._policy_changes = PolicyChanges(self)

    @property
    def loaded(self) -> dict[TopicName, Topic]:
        """Loaded topics that are not being unloaded."""
        return self._loader.loaded

    @property
    def load_failures(self) -> LoadFailures:
        """Topics whose last load failed."""
        return self._loader.failures

    def observe(
        self,
        *,
        closed: Callable[[Topic], None] | None = None,
        changed: OnChange | None = None,
    ) -> None:
        """Call ``closed`` for each unloaded topic, and ``changed`` for each event of any topic's lifecycle."""
        if closed is not None:
            self._loader.when_closed = closed
        if changed is not None:
            self._loader.when_changed = changed

    # -- names --------------------------------------------------------------------------------------------------

    def next_producer_name(self) -> str:
        """Generate the name of a producer, in Pulsar's form: ``<cluster>-<n>-<m>``."""
        return f"{self._run}-{next(self._producer_numbers)}"

    def next_consumer_name(self) -> str:
        """Generate the name of a consumer."""
        return f"{self._run}-c{next(self._consumer_numbers)}"

    # -- serving ------------------------------------------------------------------------------------------------

    def check_served(self, name: TopicName) -> Policies:
        """Return the policies of the topic's namespace; raises RequestError if this cluster does not serve it."""
        policies = self.environment.resources.namespaces.get(name.namespace_name)
        if policies is None:
            raise RequestError(ServerError.TopicNotFound, f"Namespace not found: {name.namespace_name}")
        if self.environment.cluster not in policies.replication_clusters:
            message = (
                f"Namespace missing local cluster name in clusters list: local_cluster={self.environment.cluster} "
                f"ns={name.namespace_name} clusters={policies.replication_clusters}"
            )
            raise RequestError(ServerError.MetadataError, message)
        return policies

    def check_length(self, name: TopicName) -> None:
        """Raise InvalidTopicNameError for a name of more than ``maxNameLength`` bytes, unless the topic exists.

        The limit does not apply to links, since a topic that exists in another cluster is replicated.
        """
        length_max, whole = self.environment.config.maxNameLength, name.partitioned_topic
        if is_longer(str(whole), length_max) and not self.exists(name) and self.partitions_of(whole) is None:
            raise InvalidTopicNameError(too_long("topic", str(name), length_max), Limit.NAME_LENGTH)

    def exists(self, name: TopicName) -> bool:
        """Return whether the topic exists; a partitioned topic does not count."""
        return name in self.loaded or self.environment.resources.topics.exists(name)

    def partitions_of(self, name: TopicName) -> int | None:
        """Return the number of partitions, 0 for a topic that is not partitioned; None if neither exists."""
        partitioned = self.environment.resources.partitioned_topics.get(name)
        if partitioned is not None:
            return partitioned.partitions
        return 0 if self.exists(name) else None

    def partitions_for_client(self, name: TopicName, *, create: bool) -> int:
        """Return the number of partitions; the topic may be created. Raises RequestError with TopicNotFound."""
        self.check_served(name)
        self.check_length(name)
        if name.partition_index >= 0:
            if not self.exists(name) and not self._is_counted(name):
                partitions_to_create(self.environment, name, create=create)
            return 0
        self.partitioned.check_open(name)
        partitions = self.partitions_of(name)
        if partitions is not None:
            return partitions
        partitions = partitions_to_create(self.environment, name, create=create)
        if partitions:
            self.check_room(name, partitions)
            self.partitioned.create_for_client(name, partitions)
        return partitions

    def get_or_create(self, name: TopicName, *, longer: bool = False, is_added: bool = False) -> Topic:
        """Return the topic, load or create it; raises RequestError if it is missing and may not be created.

        With ``longer``, the name may exceed ``maxNameLength``. With ``is_added``, it may be a partition that is being
        added to a partitioned topic.
        """
        self.check_open(name)
        topic = self.loaded.get(name)
        if topic is not None:
            return topic
        if not longer:
            self.check_length(name)
        self.check_served(name)
        if not self.exists(name) and not self.may_create(name):
            raise RequestError(ServerError.TopicNotFound, f"Topic {name} does not exist")
        if not longer and not self.exists(name):
            if not is_added:
                self._check_partition(name)
            self.environment.objects.check()
            if not self._is_counted(name):
                self.check_room(name, 1)
        return self._loader.load(name)

    def _check_partition(self, name: TopicName) -> None:
        """Raise RequestError with NotAllowedError for a missing topic that no consumer of a partitioned topic reads.

        A client asks for it if it began before the topic was deleted and created again with fewer partitions, or with
        partitions at all. What it published would be stored, and nobody would get it.
        """
        partitioned = self.environment.resources.partitioned_topics.get(name.partitioned_topic)
        if partitioned is not None and not 0 <= name.partition_index < partitioned.partitions:
            message = f"{name.partitioned_topic} has {partitioned.partitions} partitions, and {name} is none of them"
            raise RequestError(ServerError.NotAllowedError, message)

    def check_room(self, name: TopicName, count: int) -> None:
        """Raise RequestError with NotAllowedError if ``count`` new topics would exceed the limit of the namespace."""
        limit = self.environment.policies.of(name).max_topics
        if limit:
            existing = islice(self.environment.resources.topics.of_namespace(name.namespace_name), limit)
            if sum(1 for _ in existing) + count > limit:
                message = "Exceed maximum number of topics in namespace (maxTopicsPerNamespace)"
                raise RequestError(ServerError.NotAllowedError, message, Limit.TOPICS)

    def _is_counted(self, name: TopicName) -> bool:
        """Return whether a missing topic is a partition, which the check of its partitioned topic has counted."""
        is_partition = name.partition_index >= 0
        return is_partition and self.environment.resources.partitioned_topics.exists(name.partitioned_topic)

    def may_create(self, name: TopicName) -> bool:
        """Return whether a missing topic may be created automatically."""
        return self._is_counted(name) or self.environment.policies.of(name).auto_topic_creation.allowAutoTopicCreation

    def get(self, name: TopicName) -> Topic:
        """Return the topic; raises RequestError with TopicNotFound, or if it is being deleted."""
        self.check_open(name)
        return self.find(name)

    def find(self, name: TopicName) -> Topic:
        """Return the topic like ``get``, also for a partition of a topic that is being deleted."""
        topic = self.loaded.get(name)
        if topic is not None:
            return topic
        self.check_served(name)
        if not self.exists(name):
            raise RequestError(ServerError.TopicNotFound, f"Topic {name} not found")
        return self._loader.load(name)

    def check_open(self, name: TopicName) -> None:
        """Raise RequestError with ServiceNotReady for a partition of a topic that is being deleted."""
        if name.partition_index >= 0:
            self.partitioned.check_open(name)

    # -- creating and deleting ------------------------------------------------------------------------------------

    def create(self, name: TopicName) -> Topic:
        """Create a topic; the topic must not exist. Raises RequestError if there is no memory for it."""
        self.check_open(name)
        self.environment.objects.check()
        return self._loader.load(name)

    def unload(self, name: TopicName) -> None:
        """Close a topic when all its entries are durable (see ``TopicLoader.unload``)."""
        self._loader.unload(name)

    async def unloaded(self, name: TopicName) -> None:
        """Return when clients may attach to the topic; at once if they may now."""
        await self._loader.opened(name)

    def is_shut(self, name: TopicName) -> bool:
        """Return whether no client may attach to the topic before ``unloaded`` returns."""
        return self._loader.is_shut(name)

    def must_wait(self, name: TopicName) -> bool:
        """Return whether no client may attach before ``ready`` returns. Starts to load a topic that exists.

        A small topic whose index records are in memory is loaded on return, unless other work takes the turn. Raises
        RequestError if the topic cannot be loaded, or is being deleted.
        """
        if name not in self.loaded:
            self.check_open(name)
        return self.must_wait_to_delete(name)

    def must_wait_to_delete(self, name: TopicName) -> bool:
        """Return whether a topic cannot be deleted now; like ``must_wait``, also while it is being deleted."""
        if self._loader.is_shut(name):
            return True
        if name in self.loaded or not self.exists(name):
            return False
        self.check_served(name)
        self._loader.load_in_slices(name, lambda: self._unload_unless_served(name))
        return self._loader.is_shut(name)

    def _unload_unless_served(self, name: TopicName) -> None:
        try:
            self.check_served(name)
        except RequestError:  # the policies of the namespace changed during the load
            self.unload(name)

    async def ready(self, name: TopicName) -> None:
        """Return when clients may attach to the topic, if it exists; raises RequestError like ``must_wait``."""
        while self.must_wait(name):
            await self.unloaded(name)

    def deletion(self, name: TopicName) -> Generator[None, None, Future[None]]:
        """Delete a topic with all its data, also one that cannot be loaded, in steps: see ``TopicLoader.deletion``.

        Returns a future of the time when that is durable, which may get a StorageError. Raises StorageError,
        RequestError, also for a topic that a migration has fenced.
        """
        future: Future[None] = self.environment.loop.create_future()

        def done(error: StorageError | None) -> None:
            if error is None:
                self.load_failures.forget(name)
                self.linked.deleted(name)
            settle(future, error)

        try:
            topic = self.find(name)
        except TopicLoadError:
            check_stored_fence(self.environment, name)
            delete_unloaded(self.environment, name, done, event="damaged_topic_deleted")
        else:
            topic.log.migration_fence.check_change()
            yield from self._loader.deletion(topic, done)
        return future

    async def stop(self) -> None:
        """Close all topics in slices; no topic is loaded from now on."""
        self._policy_changes.stop()
        await self._loader.stop()
