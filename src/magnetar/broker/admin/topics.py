"""Operations on topics."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.models.topics import MessageId
from magnetar.admin.service import (
    check_not_fewer,
    topic_exists,
    topic_in_use,
    topic_not_found,
)
from magnetar.admin.topic_service import message_not_found
from magnetar.base.errors import AdminError, DamagedEntriesError, RequestError, TopicLoadError
from magnetar.base.limits import Limit
from magnetar.broker.admin.finding import Finder, refusals
from magnetar.broker.admin.internal_stats import internal_stats_steps
from magnetar.broker.admin.links import link_totals_steps
from magnetar.broker.admin.stats import topic_stats_steps
from magnetar.broker.environment import settle
from magnetar.broker.replication.protection import subscription_protection
from magnetar.broker.settings.properties import check_topic_properties
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Collection, Generator, Iterator, Mapping, Sequence

    from magnetar.admin.models.internal import PersistentTopicInternalStats
    from magnetar.admin.models.links import LinkTotals
    from magnetar.admin.models.protection import SubscriptionProtection
    from magnetar.admin.models.topics import TopicStats
    from magnetar.admin.topic_service import StatsOptions
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.base.position import Position
    from magnetar.broker.environment import Environment
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.registry import TopicRegistry
    from magnetar.metadata.effective import EffectivePolicies
    from magnetar.metadata.policies import PartitionedTopicMetadata


class TopicOperations:
    """See ``magnetar.admin.service.TopicOperations``."""

    def __init__(self, environment: Environment, topics: TopicRegistry) -> None:
        """Operate on ``topics``."""
        self._environment = environment
        self._topics = topics
        self._found = Finder(topics)

    def each(self, namespace: NamespaceName) -> Iterator[TopicName]:
        """Yield the topics of ``namespace``, including partitions, in no particular order, while they come and go."""
        return self._environment.resources.topics.of_namespace(namespace)

    def each_partitioned(self, namespace: NamespaceName) -> Iterator[TopicName]:
        """Yield the partitioned topics of ``namespace`` like ``each``."""
        return self._environment.resources.partitioned_topics.of_namespace(namespace)

    def names(self, namespace: NamespaceName) -> Generator[None, None, Sequence[str]]:
        """Return the full names of the topics of ``namespace``, including partitions, sorted; in steps."""
        return (yield from self._environment.resources.topics.reading_names(namespace)).texts

    def partitions_of(self, topic: TopicName) -> int | None:
        """Return the number of partitions of a partitioned topic, 0 for a topic, None if neither exists."""
        return self._topics.partitions_of(topic)

    async def partitions_for_client(self, topic: TopicName) -> int:
        """Return the number of partitions for a client; a missing topic is created if that is allowed."""
        with refusals(topic):
            partitions = self._topics.partitions_for_client(topic, create=True)
        await self._environment.recorded()
        return partitions

    def applied_policies(self, topic: TopicName) -> EffectivePolicies:
        """Return the policies in effect for a topic."""
        return self._environment.policies.of(topic)

    async def create(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        """Create a topic."""
        if self.partitions_of(topic) is not None:
            raise topic_exists()
        self._check_new(topic, properties)
        with refusals(topic):
            self._topics.check_room(topic, 1)
            created = self._topics.create(topic)
        for key, value in properties.items():
            created.ledger.set_property(key, value)
        await self._environment.recorded()

    async def create_partitioned(self, topic: TopicName, partitions: int, properties: Mapping[str, str]) -> None:
        """Create a partitioned topic and its partitions, or the missing ones if that was interrupted."""
        most = self._environment.config.partitions_max
        if partitions > most:
            message = f"Number of partitions should be less than or equal to {most}"
            raise AdminError(HTTPStatus.NOT_ACCEPTABLE, message, Limit.PARTITIONS)
        partitioned = self._topics.partitioned
        async with partitioned.alone(topic):
            if self.partitions_of(topic) is None:
                self._check_new(topic, properties)
            elif not await self._environment.slices.run(partitioned.is_incomplete(topic, partitions)):
                raise topic_exists()
            with refusals(topic):
                if self.partitions_of(topic) is None:
                    self._topics.check_room(topic, partitions)
                await self._environment.slices.run(partitioned.creation(topic, partitions, properties))
                await self._environment.recorded()

    async def update_properties(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        """Set properties of a partitioned topic; the others stay."""

        def update(stored: PartitionedTopicMetadata) -> PartitionedTopicMetadata:
            combined = {**(stored.properties or {}), **properties}
            check_topic_properties(combined, self._environment.config)
            return stored.model_copy(update={"properties": combined})

        with refusals(topic):
            await self._environment.resources.partitioned_topics.update(topic, update)

    async def update_partitioned(self, topic: TopicName, partitions: int) -> None:
        """Add partitions with the subscriptions of partition 0, and create missing ones."""
        most = self._environment.config.partitions_max
        if partitions > most:
            message = f"Desired partitions {partitions} can't be greater than the maximum partitions per topic {most}"
            raise AdminError(HTTPStatus.UNPROCESSABLE_ENTITY, message, Limit.PARTITIONS)
        partitioned = self._topics.partitioned
        async with partitioned.alone(topic):
            with refusals(topic):
                partitioned.check_open(topic)
                check_not_fewer(partitions, self._partitions(topic))
                await partitioned.add(topic, partitions)
                await self._environment.recorded()

    async def delete(self, topic: TopicName, *, force: bool) -> None:
        """Delete a topic."""
        with refusals(topic):
            with suppress(TopicLoadError):  # a topic that cannot be loaded can be deleted
                await self._topics.ready(topic)
            deleted = await self._environment.slices.run(self._deletion(topic, force=force))
        await deleted
        await self._environment.resources.topic_policies.forget(topic)

    def _deletion(self, topic: TopicName, *, force: bool) -> Generator[None, None, Future[None]]:
        if not force:
            self._check_unused(topic)
        return (yield from self._topics.deletion(topic))

    async def delete_partitioned(self, topic: TopicName, *, force: bool) -> None:
        """Delete a partitioned topic and its partitions, or the rest if that was interrupted."""
        partitioned = self._topics.partitioned
        async with partitioned.alone(topic):
            self._partitions(topic)
            with refusals(topic):
                await partitioned.delete(topic, self._check_unfenced if force else self._check_unused)

    async def unload(self, topic: TopicName) -> None:
        """Close the topic; the next use loads it again."""
        await self._found.topic(topic)
        self._topics.unload(topic)
        await self._topics.unloaded(topic)

    async def stats(self, topic: TopicName, options: StatsOptions) -> TopicStats:
        """Return the statistics of a topic."""
        found = await self._found.topic(topic)
        answer = await self._environment.slices.run(topic_stats_steps(found, options))
        if options.earliest_time_in_backlog:
            for name, stats in answer.subscriptions.items():
                subscription = found.subscriptions.get(name)
                if subscription is not None:  # otherwise it was deleted meanwhile
                    stats.earliest_msg_publish_time_in_backlog = await _earliest_publish_time(subscription)
            times = [each.earliest_msg_publish_time_in_backlog for each in answer.subscriptions.values()]
            answer.earliest_msg_publish_time_in_backlogs = min((time for time in times if time), default=0)
        return answer

    async def protection(self, topic: TopicName) -> Mapping[str, SubscriptionProtection]:
        """Return the protection of each durable subscription."""
        return subscription_protection(await self._found.topic(topic))

    def link_totals(self) -> Generator[None, None, dict[str, dict[str, LinkTotals]]]:
        """Return the statistics of all links by namespace and remote cluster, in steps."""
        return link_totals_steps(self._environment, self._topics)

    async def internal_stats(self, topic: TopicName) -> PersistentTopicInternalStats:
        """Return the state of a topic's managed ledger."""
        return await self._environment.slices.run(internal_stats_steps(await self._found.topic(topic)))

    def is_loaded(self, topic: TopicName) -> bool:
        """Return whether the topic is in memory."""
        return topic in self._topics.loaded

    def open_names(self) -> list[TopicName]:
        """Return the loaded topics."""
        return list(self._topics.loaded)

    def open_stats(self, topic: TopicName, options: StatsOptions) -> Generator[None, None, TopicStats | None]:
        """See the protocol."""
        found = self._topics.loaded.get(topic)
        return None if found is None else (yield from topic_stats_steps(found, options))

    async def begin_snapshot(self, topic: TopicName, without: Collection[str]) -> None:
        """Start a snapshot for replicated subscriptions."""
        with refusals(topic):
            (await self._found.topic(topic)).begin_snapshot(without)

    async def skip_entries(self, topic: TopicName, cluster: str, through: Position) -> None:
        """Let the link to ``cluster`` skip the damaged entries at which it has stopped."""
        found = await self._found.topic(topic)
        skipped: Future[None] = self._environment.loop.create_future()
        with refusals(topic):
            found.replicators.to(cluster).own.skip_damaged(through, partial(settle, skipped))
        await skipped

    # -- entries ------------------------------------------------------------------------------------------------

    async def read_entry(self, topic: TopicName, position: Position) -> bytes:
        """Return the entry at ``position``."""
        try:
            return await (await self._found.topic(topic)).log.read_entry(position)
        except RequestError:
            raise message_not_found() from None

    async def last_message_id(self, topic: TopicName) -> MessageId:
        """Return the id of the newest message; -1:-1 if the topic is empty."""
        position, batch_size = await (await self._found.topic(topic)).log.last_message()
        answer = MessageId.of(position, topic)
        if batch_size is not None:
            answer.batch_size, answer.batch_index = batch_size, batch_size - 1
        return answer

    async def message_id_by_time(self, topic: TopicName, timestamp_ms: int) -> MessageId:
        """Return the id of the first entry published at or after the time, else of the last entry."""
        found = await self._found.topic(topic)
        following = found.ledger.next_position(await found.log.position_before_time(timestamp_ms))
        return MessageId.of(min(following, found.ledger.last_confirmed_entry), topic)

    # -- checks -------------------------------------------------------------------------------------------------

    def _check_new(self, name: TopicName, properties: Mapping[str, str]) -> None:
        """Refuse a topic whose name or properties are too long."""
        with refusals(name):
            self._topics.check_length(name)
            check_topic_properties(properties, self._environment.config)

    def _partitions(self, topic: TopicName) -> int:
        """Return the number of partitions; refuses a topic that is not partitioned."""
        partitions = self._topics.partitions_of(topic)
        if not partitions:
            raise topic_not_found(topic)
        return partitions

    def _check_unused(self, name: TopicName) -> None:
        """Refuse the deletion of a topic that is in use, or may be."""
        with refusals(name):
            try:
                found = self._topics.find(name)
            except TopicLoadError as error:
                message = (
                    f"{error}. Its clients are refused, so it is unknown whether it is in use: delete it with force"
                )
                raise AdminError(HTTPStatus.PRECONDITION_FAILED, message) from None
            found.log.migration_fence.check_change()
        if found.producers or any(each.consumers for each in found.subscriptions.values()):
            raise topic_in_use()

    def _check_unfenced(self, name: TopicName) -> None:
        """Refuse the deletion of a topic whose clients a migration moves."""
        with suppress(TopicLoadError), refusals(name, TopicLoadError):
            self._topics.find(name).log.migration_fence.check_change()


async def _earliest_publish_time(subscription: Subscription) -> int:
    """Return the publish time of the first unacknowledged entry that is intact; 0 without one."""
    log, unread = subscription.topic.log, subscription.unread
    while first := unread.undeleted(unread.first(), 1):
        try:
            return wire_entry.publish_time_ms(await log.read_entry(first[0].first))
        except DamagedEntriesError as error:
            log.note_damage(error)
    return 0
