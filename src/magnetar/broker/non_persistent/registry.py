"""Registry of the non-persistent topics: they exist while clients use them, and for a while afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import InvalidTopicNameError, RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.base.names import is_longer, too_long
from magnetar.broker.loop.slices import SlicedWork
from magnetar.broker.non_persistent.names import NonPersistentNames
from magnetar.broker.non_persistent.partitioned import PartitionedNonPersistentTopics
from magnetar.broker.non_persistent.producers import not_replicated
from magnetar.broker.non_persistent.topic import NonPersistentTopic
from magnetar.broker.topic.partitioned_topics import partitions_to_create

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Never

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.registry import TopicRegistry

log = structlog.get_logger(__name__)


class _NoLinks:
    """Requests of links, which are refused."""

    def absence(self, name: TopicName) -> Never:
        """Raise RequestError."""
        raise not_replicated(name)

    get_or_create = absence


class NonPersistentTopics:
    """The non-persistent topics of this cluster. Used on the event loop's thread."""

    def __init__(self, persistent: TopicRegistry) -> None:
        """Create the registry, without topics; ``persistent`` knows the namespaces that this cluster serves."""
        self.environment: Environment = persistent.environment
        self._persistent = persistent
        self.loaded: dict[TopicName, NonPersistentTopic] = {}
        self.names = NonPersistentNames()
        self.partitioned = PartitionedNonPersistentTopics(self)
        self.linked = _NoLinks()
        self._unused_since: dict[TopicName, float] = {}
        """Times since which topics have been unused, in monotonic seconds, as far as observed."""
        resources, loop, clock = self.environment.resources, self.environment.loop, self.environment.clock
        self._following: SlicedWork[NamespaceName | TopicName, TopicName] = SlicedWork(loop, clock)
        """Topics to which changed policies are not applied yet."""
        resources.namespaces.watch(lambda changed: self._follow(changed, lambda name: name.namespace_name == changed))
        resources.topic_policies.watch(
            lambda changed: self._follow(changed, lambda name: name.partitioned_topic == changed)
        )

    # -- names --------------------------------------------------------------------------------------------------

    def check_served(self, name: TopicName) -> None:
        """Raise RequestError if this cluster does not serve the topic's namespace."""
        self._persistent.check_served(name)

    def check_length(self, name: TopicName) -> None:
        """Raise InvalidTopicNameError for a new name of more than ``maxNameLength`` bytes."""
        length_max = self.environment.config.maxNameLength
        if is_longer(str(name.partitioned_topic), length_max) and not self.exists(name):
            raise InvalidTopicNameError(too_long("topic", str(name), length_max), Limit.NAME_LENGTH)

    def exists(self, name: TopicName) -> bool:
        """Return whether the topic exists: it is in use, or it is a partition."""
        if name in self.loaded:
            return True
        if name.partition_index < 0:
            return False
        whole = self.environment.resources.partitioned_topics.get(name.partitioned_topic)
        return whole is not None and name.partition_index < whole.partitions

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
        partitions = self.partitions_of(name)
        if partitions is not None:
            return partitions
        partitions = partitions_to_create(self.environment, name, create=create)
        if name.partition_index >= 0:
            return 0
        if partitions:
            self.partitioned.create(name, partitions, {})
        return partitions

    # -- serving ------------------------------------------------------------------------------------------------

    def must_wait(self, name: TopicName) -> bool:
        """Return False: clients may attach to any topic at once."""
        del name
        return False

    async def ready(self, name: TopicName) -> None:
        """Return at once."""

    def get_or_create(self, name: TopicName) -> NonPersistentTopic:
        """Return the topic, or create it; raises RequestError if it is missing and may not be created."""
        topic = self.loaded.get(name)
        if topic is not None:
            return topic
        self.check_length(name)
        if not self.exists(name) and not self.environment.policies.of(name).auto_topic_creation.allowAutoTopicCreation:
            raise RequestError(ServerError.TopicNotFound, f"Topic {name} does not exist")
        return self.create(name)

    def get(self, name: TopicName) -> NonPersistentTopic:
        """Return the topic; raises RequestError with TopicNotFound."""
        topic = self.loaded.get(name)
        if topic is not None:
            return topic
        if not self.exists(name):
            raise RequestError(ServerError.TopicNotFound, f"Topic {name} not found")
        return self.create(name)

    def create(self, name: TopicName) -> NonPersistentTopic:
        """Create a topic, which must not exist. Raises RequestError if there is no memory for it."""
        self.check_served(name)
        self.environment.objects.check()
        topic = self.loaded[name] = NonPersistentTopic(self.environment, name)
        self.names.add(name)
        targets = self.environment.targets_of_topic(name)
        if targets:
            log.warning("not_replicated", topic=str(name), clusters=targets, reason="the topic is non-persistent")
        return topic

    def close(self, name: TopicName) -> None:
        """Remove a topic, if it exists, and disconnect its clients; their next request creates it again."""
        topic = self.loaded.pop(name, None)
        if topic is not None:
            self.names.remove(name)
            self._unused_since.pop(name, None)
            topic.close()

    async def delete(self, name: TopicName) -> None:
        """Remove a topic and, unless it is a partition, its schemas and policies."""
        self.close(name)
        if name.partition_index < 0:
            await self.environment.resources.topic_policies.forget(name)
            await self.environment.schemas.delete(name, force=True)

    async def remove_unused(self, name: TopicName) -> None:
        """Remove a topic that nobody uses and, unless it is a partition, its schemas.

        Its policies stay, unless a policy requests the deletion of unused topics. They always stay in a replicated
        namespace, since other clusters have the same policies, and may use the topic.
        """
        is_deletion_requested = self.loaded[name].policies.inactive_topics.deleteWhileInactive
        if is_deletion_requested and not self.environment.targets_of(name.namespace_name):
            await self.delete(name)
            return
        self.close(name)
        if name.partition_index < 0:
            await self.environment.schemas.delete(name, force=True)

    def stop(self) -> None:
        """Close all topics."""
        self._following.stop()
        for name in tuple(self.loaded):
            self.close(name)

    # -- housekeeping -------------------------------------------------------------------------------------------

    def finding_unused(self) -> Generator[None, None, list[TopicName]]:
        """Find the topics that nobody has used for the time of their policy, or of the broker's setting; in steps."""
        now, default_s = self.environment.clock.monotonic(), self._unload_after_s
        unused: dict[TopicName, float] = {}
        due: list[TopicName] = []
        for name, topic in tuple(self.loaded.items()):
            yield
            if not topic.is_unused:
                continue
            since = unused[name] = self._unused_since.get(name, now)
            policy = topic.policies.inactive_topics
            limit_s = min(default_s, policy.maxInactiveDurationSeconds if policy.deleteWhileInactive else default_s)
            if now - since >= limit_s and now > since:
                due.append(name)
        self._unused_since = unused
        return due

    @property
    def _unload_after_s(self) -> float:
        seconds = self.environment.config.brokerUnloadInactiveTopicsMaxInactiveDurationSeconds
        return seconds or float("inf")

    def _follow(self, changed: NamespaceName | TopicName, concerns: Callable[[TopicName], bool]) -> None:
        """Apply changed policies to the topics that they concern, in slices."""

        def follow(name: TopicName) -> None:
            topic = self.loaded.get(name)
            if topic is None or not concerns(name):
                return
            try:
                self.check_served(name)
            except RequestError:  # clients must move to another cluster
                self.close(name)
            else:
                topic.apply_policies()

        self._following.start(changed, tuple(self.loaded), follow)
