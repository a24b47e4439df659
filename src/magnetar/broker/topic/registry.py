"""Which topics there are: found, loaded, created, deleted."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from magnetar.base.errors import InvalidTopicNameError, RequestError, ServerError, TopicLoadError
from magnetar.base.limits import Limit
from magnetar.base.names import NamespaceName, TopicName, is_longer, too_long
from magnetar.broker.topic.damaged_topics import delete_damaged
from magnetar.broker.topic.linked_topics import LinkedTopics
from magnetar.broker.topic.loader import TopicLoader
from magnetar.broker.topic.partitioned_topics import PartitionedTopics
from magnetar.broker.topic.policy_changes import PolicyChanges
from magnetar.broker.topic.topic_lists import TopicLists
from magnetar.cursor.store import cursor_count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.lifecycle import OnChange
    from magnetar.broker.topic.load_failures import LoadFailures
    from magnetar.broker.topic.topic import Topic
    from magnetar.metadata.policies import Policies

LOADED_AT_ONCE_MAX = 100
"""Cursors of a topic that is loaded in one turn of the event loop. One with more is loaded in slices."""


def parse_topic(text: str) -> TopicName:
    """A topic's name from the wire; raises RequestError for a bad one, and for a kind that is not served."""
    name = TopicName.parse(text)
    if not name.is_persistent:
        raise RequestError(ServerError.NotAllowedError, f"non-persistent topics are not enabled on this broker: {name}")
    return name


class TopicRegistry:
    """The topics of this cluster; loaded when first asked for. Everything happens on the event loop's thread."""

    def __init__(self, environment: Environment, service_url: str) -> None:
        """Nothing is loaded yet."""
        self.environment = environment
        self.service_url = service_url
        self._loader = TopicLoader(environment, lambda name: self.linked.load_again(name))  # noqa: PLW0108 - made below
        self.partitioned = PartitionedTopics(self)
        self.linked = LinkedTopics(self)
        """The replicated topics."""
        self.lists = TopicLists(environment.resources.topics, environment.sliced)
        self._producer_numbers = itertools.count()
        self._consumer_numbers = itertools.count()
        # Names must be unique among live producers of all clusters and of all runs of this one.
        self._run = f"{environment.cluster}-{int(environment.clock.now() * 1000):x}"
        self._policy_changes = PolicyChanges(self)

    @property
    def loaded(self) -> dict[TopicName, Topic]:
        """The topics that are loaded and not on their way out."""
        return self._loader.loaded

    @property
    def load_failures(self) -> LoadFailures:
        """The topics that could not be loaded when they were last asked for."""
        return self._loader.failures

    def observe(
        self,
        *,
        closed: Callable[[Topic], None] | None = None,
        changed: OnChange | None = None,
    ) -> None:
        """Have ``closed`` told of each topic that is unloaded, and ``changed`` of what happens to any topic."""
        if closed is not None:
            self._loader.when_closed = closed
        if changed is not None:
            self._loader.when_changed = changed

    # -- names --------------------------------------------------------------------------------------------------

    def next_producer_name(self) -> str:
        """A name for a producer that has none, as Pulsar makes them: ``<cluster>-<n>-<m>``."""
        return f"{self._run}-{next(self._producer_numbers)}"

    def next_consumer_name(self) -> str:
        """A name for a consumer that has none."""
        return f"{self._run}-c{next(self._consumer_numbers)}"

    def names(self, namespace: NamespaceName) -> list[TopicName]:
        """The topics of ``namespace``, partitions as topics of their own, sorted."""
        return self.environment.resources.topics.of_namespace(namespace)

    # -- serving ------------------------------------------------------------------------------------------------

    def check_served(self, name: TopicName) -> Policies:
        """The policies of the topic's namespace; raises RequestError if this cluster does not serve it."""
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
        """Raise InvalidTopicNameError for a name of more than ``maxNameLength`` bytes, unless there is such a topic.

        The limit does not hold for links: a topic that exists in another cluster is replicated.
        """
        length_max, whole = self.environment.config.maxNameLength, name.partitioned_topic
        if is_longer(str(whole), length_max) and not self.exists(name) and self.partitions_of(whole) is None:
            raise InvalidTopicNameError(too_long("topic", str(name), length_max), Limit.NAME_LENGTH)

    def exists(self, name: TopicName) -> bool:
        """Whether there is such a topic (not: a partitioned one)."""
        return name in self.loaded or self.environment.resources.topics.exists(name)

    def partitions_of(self, name: TopicName) -> int | None:
        """Number of partitions, 0 for a topic without; None when there is no such topic."""
        partitioned = self.environment.resources.partitioned_topics.get(name)
        if partitioned is not None:
            return partitioned.partitions
        return 0 if self.exists(name) else None

    def partitions_for_client(self, name: TopicName, *, create: bool) -> int:
        """The same for a client, which may create what is missing; raises RequestError with TopicNotFound."""
        self.check_served(name)
        self.check_length(name)
        if name.partition_index >= 0:
            return 0
        self.partitioned.check_open(name)
        partitions = self.partitions_of(name)
        if partitions is not None:
            return partitions
        config = self.environment.config
        if not create or not config.allowAutoTopicCreation:
            raise RequestError(ServerError.TopicNotFound, f"Topic {name} does not exist")
        if config.allowAutoTopicCreationType == "non-partitioned":
            return 0
        self.partitioned.create_for_client(name, config.defaultNumPartitions)
        return config.defaultNumPartitions

    def get_or_create(self, name: TopicName, *, longer: bool = False) -> Topic:
        """The topic, loaded or created; raises RequestError if it is missing and may not be created.

        With ``longer`` its name may exceed ``maxNameLength``.
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
        return self._loader.load(name)

    def may_create(self, name: TopicName) -> bool:
        """Whether a topic that is missing may be created by who uses it."""
        if name.partition_index >= 0 and self.environment.resources.partitioned_topics.exists(name.partitioned_topic):
            return True
        return self.environment.config.allowAutoTopicCreation

    def get(self, name: TopicName) -> Topic:
        """The topic if it exists; raises RequestError with TopicNotFound, or if it is about to be deleted."""
        self.check_open(name)
        return self.find(name)

    def find(self, name: TopicName) -> Topic:
        """As ``get``, also for a partition of a topic that is about to be deleted."""
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
        """Create a topic that must not exist."""
        self.check_open(name)
        return self._loader.load(name)

    def unload(self, name: TopicName) -> None:
        """Close a topic once everything in it is durable (see ``TopicLoader.unload``)."""
        self._loader.unload(name)

    async def unloaded(self, name: TopicName) -> None:
        """Return when a topic that nobody is let into may be had; at once for any other."""
        await self._loader.opened(name)

    def is_shut(self, name: TopicName) -> bool:
        """Whether nobody is let into the topic before ``unloaded`` returns."""
        return self._loader.is_shut(name)

    def must_wait(self, name: TopicName) -> bool:
        """Whether nobody is let into the topic before ``ready`` returns. Many subscriptions begin to be loaded by that.

        Raises RequestError if such a topic cannot be loaded.
        """
        if not self._loader.is_shut(name):
            if name in self.loaded or cursor_count(self.environment.metadata, name) <= LOADED_AT_ONCE_MAX:
                return False
            self.check_served(name)
            self._loader.load_in_slices(name, lambda: self._unload_unless_served(name))
        return self._loader.is_shut(name)

    def _unload_unless_served(self, name: TopicName) -> None:
        try:
            self.check_served(name)
        except RequestError:  # the policies of its namespace changed while it was loaded
            self.unload(name)

    async def ready(self, name: TopicName) -> None:
        """Return when the topic can be had, if there is one; raises RequestError as ``must_wait``."""
        while self.must_wait(name):
            await self.unloaded(name)

    def deletion(self, name: TopicName) -> Generator[None, None, None]:
        """Delete a topic with everything in it, also one that cannot be loaded, in steps: see ``TopicLoader.deletion``.

        Raises StorageError, RequestError.
        """
        try:
            topic = self.find(name)
        except TopicLoadError:
            delete_damaged(self.environment, name)
        else:
            yield from self._loader.deletion(topic)
        self.load_failures.forget(name)
        self.linked.deleted(name)

    def close(self) -> None:
        """Close every topic; none is loaded from now on."""
        self._policy_changes.stop()
        self._loader.close()
