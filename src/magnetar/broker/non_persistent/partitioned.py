"""Partitioned non-persistent topics: only the number of partitions is stored. Partitions exist by their number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.metadata.policies import PartitionedTopicMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.non_persistent.topic import NonPersistentTopic
    from magnetar.metadata.awaiting import Commit


class LoadedTopics(Protocol):
    """The topics in use."""

    environment: Environment
    loaded: dict[TopicName, NonPersistentTopic]

    def close(self, name: TopicName) -> None:
        """Remove a topic, if it exists, and disconnect its clients."""
        ...


class PartitionedNonPersistentTopics:
    """The partitioned topics. Used on the event loop's thread."""

    def __init__(self, topics: LoadedTopics) -> None:
        """Create the collection."""
        self._topics = topics
        self._environment = topics.environment

    def create(self, name: TopicName, partitions: int, properties: Mapping[str, str]) -> Commit:
        """Create a partitioned topic, which must not exist."""
        metadata = PartitionedTopicMetadata(partitions=partitions, properties=dict(properties) or None)
        return self._environment.resources.partitioned_topics.create(name, metadata)

    def update(self, name: TopicName, partitions: int) -> Commit:
        """Raise the number of partitions."""
        return self._environment.resources.partitioned_topics.update(
            name, lambda found: found.model_copy(update={"partitions": partitions})
        )

    def present(self, name: TopicName) -> Iterator[TopicName]:
        """Yield the partitions that are in use, or were a while ago."""
        stored = self._environment.resources.partitioned_topics.get(name)
        for index in range(0 if stored is None else stored.partitions):
            if name.partition(index) in self._topics.loaded:
                yield name.partition(index)

    async def delete(self, name: TopicName) -> None:
        """Delete a partitioned topic, its schemas and policies, and disconnect the clients of its partitions."""
        present = list(self.present(name))
        await self._environment.resources.partitioned_topics.delete(name)
        for partition in present:
            self._topics.close(partition)
        await self._environment.resources.topic_policies.forget(name)
        await self._environment.schemas.delete(name, force=True)
