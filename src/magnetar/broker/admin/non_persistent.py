"""Operations on non-persistent topics."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.models.internal import CursorStats, PersistentTopicInternalStats
from magnetar.admin.service import check_not_fewer, subscription_not_found, topic_exists, topic_not_found
from magnetar.base.errors import AdminError
from magnetar.base.limits import Limit
from magnetar.base.names import NON_PERSISTENT
from magnetar.base.position import Position
from magnetar.broker.admin.finding import refusals
from magnetar.broker.admin.non_persistent_stats import non_persistent_stats
from magnetar.broker.dispatch.consumer import Consumer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from magnetar.admin.models.topics import TopicStats
    from magnetar.admin.topic_service import StatsOptions
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.non_persistent.registry import NonPersistentTopics
    from magnetar.broker.non_persistent.topic import NonPersistentTopic


class NonPersistentOperations:
    """See ``magnetar.admin.topic_service.NonPersistentOperations``."""

    def __init__(self, environment: Environment, topics: NonPersistentTopics) -> None:
        """Operate on ``topics``."""
        self._environment = environment
        self._topics = topics

    def each(self, namespace: NamespaceName) -> Iterator[TopicName]:
        """Yield the topics of ``namespace``."""
        return (name for name in tuple(self._topics.loaded) if name.namespace_name == namespace)

    def each_partitioned(self, namespace: NamespaceName) -> Iterator[TopicName]:
        """Yield the partitioned topics of ``namespace``."""
        return self._environment.resources.partitioned_topics.of_namespace(namespace, NON_PERSISTENT)

    def names(self, namespace: NamespaceName) -> Generator[None, None, Sequence[str]]:
        """Return the full names of the topics of ``namespace``, including partitions, sorted; in steps."""
        return (yield from self._topics.names.reading_names(namespace)).texts

    def partitions_of(self, topic: TopicName) -> int | None:
        """Return the number of partitions of a partitioned topic, 0 for a topic, None if neither exists."""
        return self._topics.partitions_of(topic)

    async def partitions_for_client(self, topic: TopicName) -> int:
        """Return the number of partitions for a client; a missing topic is created if that is allowed."""
        with refusals(topic):
            partitions = self._topics.partitions_for_client(topic, create=True)
        await self._environment.recorded()
        return partitions

    async def create(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        """Create a topic, which is removed after some time without clients."""
        if topic in self._topics.loaded or self.partitions_of(topic):
            raise topic_exists()
        _check_no_properties(properties)
        with refusals(topic):
            self._topics.check_length(topic)
            self._topics.create(topic)

    async def create_partitioned(self, topic: TopicName, partitions: int, properties: Mapping[str, str]) -> None:
        """Create a partitioned topic."""
        most = self._environment.config.partitions_max
        if partitions > most:
            message = f"Number of partitions should be less than or equal to {most}"
            raise AdminError(HTTPStatus.NOT_ACCEPTABLE, message, Limit.PARTITIONS)
        if self.partitions_of(topic) is not None:
            raise topic_exists()
        _check_no_properties(properties)
        with refusals(topic):
            self._topics.check_length(topic)
            await self._topics.partitioned.create(topic, partitions, {})

    async def update_partitioned(self, topic: TopicName, partitions: int) -> None:
        """Add partitions."""
        most, current = self._environment.config.partitions_max, self.partitions_of(topic)
        if partitions > most:
            message = f"Desired partitions {partitions} can't be greater than the maximum partitions per topic {most}"
            raise AdminError(HTTPStatus.UNPROCESSABLE_ENTITY, message, Limit.PARTITIONS)
        if not current:
            raise topic_not_found(topic)
        check_not_fewer(partitions, current)
        await self._topics.partitioned.update(topic, partitions)

    async def delete(self, topic: TopicName, *, force: bool) -> None:
        """Delete a topic; a missing one is no error, as in Pulsar."""
        if not force:
            self._check_unused(topic)
        await self._topics.delete(topic)

    async def delete_partitioned(self, topic: TopicName, *, force: bool) -> None:
        """Delete a partitioned topic and its partitions."""
        if not self.partitions_of(topic):
            raise topic_not_found(topic)
        if not force:
            for partition in self._topics.partitioned.present(topic):
                self._check_unused(partition)
        await self._topics.partitioned.delete(topic)

    def _check_unused(self, topic: TopicName) -> None:
        found = self._topics.loaded.get(topic)
        if found is not None and not found.is_unused:
            clients = len(found.producers) + sum(len(each.consumers) for each in found.subscriptions.values())
            message = f"Topic has {clients} connected producers/consumers"
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, message)

    async def unload(self, topic: TopicName) -> None:
        """Disconnect the clients of the topic; their next request creates it again."""
        self._found(topic)
        self._topics.close(topic)

    async def stats(self, topic: TopicName, options: StatsOptions) -> TopicStats:
        """Return the statistics of a topic."""
        return await self._environment.slices.run(non_persistent_stats(self._found(topic), options))

    async def internal_stats(self, topic: TopicName) -> PersistentTopicInternalStats:
        """Return the state of a topic in the model of persistent ones, as Pulsar does."""
        found, nowhere = self._found(topic), Position(0, 0)
        cursors = {
            name: CursorStats(mark_delete_position=nowhere, read_position=nowhere)
            for name in sorted(found.subscriptions)
        }
        return PersistentTopicInternalStats(entries_added_counter=found.distribution.entries, cursors=cursors)

    def is_loaded(self, topic: TopicName) -> bool:
        """Return whether the topic is in memory; its name alone does not create it."""
        return topic in self._topics.loaded

    def open_names(self) -> list[TopicName]:
        """Return the topics."""
        return list(self._topics.loaded)

    def open_stats(self, topic: TopicName, options: StatsOptions) -> Generator[None, None, TopicStats | None]:
        """See the protocol."""
        found = self._topics.loaded.get(topic)
        return None if found is None else (yield from non_persistent_stats(found, options))

    def subscriptions(self, topic: TopicName) -> list[str]:
        """Return the names of the subscriptions."""
        return sorted(self._found(topic).subscriptions)

    def delete_subscription(self, topic: TopicName, subscription: str) -> None:
        """Disconnect the consumers of a subscription, which ends it; they may subscribe again."""
        found = self._found(topic).subscriptions.get(subscription)
        if found is None:
            raise subscription_not_found(topic, subscription)
        self._environment.sliced.start(object(), found.detach_all(), Consumer.close)

    def _found(self, topic: TopicName) -> NonPersistentTopic:
        with refusals(topic):
            return self._topics.get(topic)


def _check_no_properties(properties: Mapping[str, str]) -> None:
    if properties:
        raise AdminError(HTTPStatus.NOT_ACCEPTABLE, "Properties of non-persistent topics are not supported")
