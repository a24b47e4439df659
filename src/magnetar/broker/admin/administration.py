"""What the broker does for its admin API."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

import magnetar
from magnetar.admin.models.topics import MessageId
from magnetar.admin.service import (
    StatsOptions,
    check_not_fewer,
    message_not_found,
    subscription_exists,
    subscription_in_use,
    subscription_not_found,
    topic_exists,
    topic_in_use,
    topic_not_found,
)
from magnetar.base.errors import AdminError, RequestError, ServerError, StorageError, TopicLoadError
from magnetar.base.limits import Limit
from magnetar.base.names import check_length
from magnetar.base.position import EARLIEST
from magnetar.broker.admin import stats
from magnetar.broker.housekeeping.storage_watch import reason_against
from magnetar.broker.replication.protection import subscription_protection
from magnetar.broker.resources.process import resident_bytes
from magnetar.broker.settings.properties import check_properties
from magnetar.broker.topic.admission import check_room_for_subscription
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Mapping

    from magnetar.admin.models.internal import PersistentTopicInternalStats
    from magnetar.admin.models.protection import SubscriptionProtection
    from magnetar.admin.models.topics import TopicStats
    from magnetar.base.histogram import Histogram
    from magnetar.base.memory_share import Share
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.base.position import Position
    from magnetar.broker.environment import Environment
    from magnetar.broker.log.interfaces import LoggedTopic
    from magnetar.broker.subscription.subscription import SubscribedTopic, Subscription
    from magnetar.broker.topic.registry import TopicRegistry
    from magnetar.broker.topic.topic import Topic
    from magnetar.metadata.effective import EffectivePolicies

Result = TypeVar("Result")

_CHEAP = StatsOptions(exclude_publishers=True, exclude_consumers=True)


class Administration:
    """The broker as ``magnetar.admin.service.AdminService`` describes it."""

    def __init__(self, environment: Environment, topics: TopicRegistry, admin_url: str) -> None:
        """Administer ``topics``."""
        self._environment = environment
        self._topics = topics
        self._admin_url = admin_url

    @property
    def cluster_name(self) -> str:
        """The name of this cluster."""
        return self._environment.cluster

    @property
    def service_url(self) -> str:
        """Where clients connect."""
        return self._topics.service_url

    @property
    def admin_url(self) -> str:
        """Where the admin API is served."""
        return self._admin_url

    @property
    def name_length_max(self) -> int:
        """See AdminService."""
        return self._environment.config.maxNameLength

    @property
    def version(self) -> str:
        """The release of the broker."""
        return magnetar.__version__

    # -- topics -------------------------------------------------------------------------------------------------

    def list_topics(self, namespace: NamespaceName) -> list[TopicName]:
        """The topics of ``namespace``, partitions included."""
        return self._topics.names(namespace)

    def list_partitioned_topics(self, namespace: NamespaceName) -> list[TopicName]:
        """The partitioned topics of ``namespace``."""
        return self._environment.resources.partitioned_topics.of_namespace(namespace)

    def partitions_of(self, topic: TopicName) -> int | None:
        """How many partitions a partitioned topic has, 0 for a topic, None for neither."""
        return self._topics.partitions_of(topic)

    def applied_policies(self, topic: TopicName) -> EffectivePolicies:
        """What holds for a topic."""
        return self._environment.policies_of(topic)

    async def create_topic(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        """Create a topic."""
        if self.partitions_of(topic) is not None:
            raise topic_exists()
        self._check_new(topic, properties)
        created = self._topics.create(topic)
        for key, value in properties.items():
            created.ledger.set_property(key, value)

    async def create_partitioned_topic(self, topic: TopicName, partitions: int, properties: Mapping[str, str]) -> None:
        """Create a partitioned topic and its partitions, or those that are missing because that was not finished."""
        most = self._environment.config.maxNumPartitionsPerPartitionedTopic
        if partitions > most:
            message = f"Number of partitions should be less than or equal to {most}"
            raise AdminError(HTTPStatus.NOT_ACCEPTABLE, message, Limit.PARTITIONS)
        partitioned = self._topics.partitioned
        async with partitioned.alone(topic):
            if self.partitions_of(topic) is None:
                self._check_new(topic, properties)
            elif not await self.in_slices(partitioned.is_incomplete(topic, partitions)):
                raise topic_exists()
            with _refusals(topic):
                await self.in_slices(partitioned.creation(topic, partitions, properties))

    async def update_partitioned_topic(self, topic: TopicName, partitions: int) -> None:
        """Add partitions, and create those that are missing; subscriptions of partition 0 exist on the new ones too."""
        most = self._environment.config.maxNumPartitionsPerPartitionedTopic
        if partitions > most:
            message = f"Desired partitions {partitions} can't be greater than the maximum partitions per topic {most}"
            raise AdminError(HTTPStatus.UNPROCESSABLE_ENTITY, message, Limit.PARTITIONS)
        partitioned = self._topics.partitioned
        async with partitioned.alone(topic):
            with _refusals(topic):
                partitioned.check_open(topic)
                check_not_fewer(partitions, self._partitions(topic))
                await self.in_slices(partitioned.addition(topic, partitions))

    async def delete_topic(self, topic: TopicName, *, force: bool) -> None:
        """Delete a topic."""
        with _refusals(topic):
            with suppress(TopicLoadError):  # one that cannot be loaded can be deleted
                await self._topics.ready(topic)
            await self.in_slices(self._deletion(topic, force=force))
        self._environment.resources.topic_policies.forget(topic)

    def _deletion(self, topic: TopicName, *, force: bool) -> Generator[None, None, None]:
        if not force:
            self._check_unused(topic)
        yield from self._topics.deletion(topic)

    async def delete_partitioned_topic(self, topic: TopicName, *, force: bool) -> None:
        """Delete a partitioned topic and its partitions, or the rest if that was not finished."""
        partitioned = self._topics.partitioned
        async with partitioned.alone(topic):
            self._partitions(topic)
            with _refusals(topic):
                await partitioned.delete(topic, _accept if force else self._check_unused)

    async def unload_topic(self, topic: TopicName) -> None:
        """Close the topic; it is opened again on the next use."""
        await self._get(topic)
        self._topics.unload(topic)
        await self._topics.unloaded(topic)

    async def topic_stats(self, topic: TopicName, options: StatsOptions) -> TopicStats:
        """Statistics of a topic."""
        found = await self._get(topic)
        answer = await self.in_slices(stats.topic_stats_steps(found, options))
        if options.earliest_time_in_backlog:
            for name, subscription in found.subscriptions.items():
                first = subscription.unread.undeleted(subscription.unread.first(), 1)
                if first:
                    published_ms = wire_entry.publish_time_ms(await found.log.read_entry(first[0].first))
                    answer.subscriptions[name].earliest_msg_publish_time_in_backlog = published_ms
            times = [each.earliest_msg_publish_time_in_backlog for each in answer.subscriptions.values()]
            answer.earliest_msg_publish_time_in_backlogs = min((time for time in times if time), default=0)
        return answer

    async def protection(self, topic: TopicName) -> Mapping[str, SubscriptionProtection]:
        """How well off each durable subscription is towards the other clusters."""
        return subscription_protection(await self._get(topic))

    async def internal_stats(self, topic: TopicName) -> PersistentTopicInternalStats:
        """The state of a topic's managed ledger."""
        return await self.in_slices(stats.internal_stats_steps(await self._get(topic)))

    def open_topics(self) -> list[TopicName]:
        """The topics that are open."""
        return list(self._topics.loaded)

    def open_topic_stats(self, topic: TopicName) -> Generator[None, None, TopicStats | None]:
        """See AdminService."""
        found = self._topics.loaded.get(topic)
        return None if found is None else (yield from stats.topic_stats_steps(found, _CHEAP))

    async def in_slices(self, steps: Generator[None, None, Result]) -> Result:
        """See AdminService."""
        return await self._environment.slices.run(steps)

    # -- subscriptions --------------------------------------------------------------------------------------------

    async def list_subscriptions(self, topic: TopicName) -> list[str]:
        """Names of the subscriptions."""
        return sorted((await self._get(topic)).subscriptions)

    async def create_subscription(
        self, topic: TopicName, subscription: str, position: Position, *, replicated: bool
    ) -> None:
        """Create a subscription whose first message is at or after ``position``."""
        found = await self._get_or_create(topic)
        if subscription in found.subscriptions:
            raise subscription_exists()
        if replicated:
            _check_replication_allowed(found)
        try:
            check_length("subscription", subscription, self.name_length_max)
            check_room_for_subscription(found)
            created = found.create_subscription(subscription, _mark_delete_before(found, position))
        except RequestError as error:
            raise _as_admin_error(topic, error) from None
        if replicated:
            found.set_replicated(created, replicated=True)
        await created.flushes.durable()

    async def delete_subscription(self, topic: TopicName, subscription: str, *, force: bool) -> None:
        """Delete a subscription."""
        found = await self._subscription(topic, subscription)
        if found.consumers and not force:
            raise subscription_in_use()
        found.topic.delete_subscription(found)

    async def skip_messages(self, topic: TopicName, subscription: str, count: int) -> None:
        """Acknowledge the next ``count`` unacknowledged entries."""
        found = await self._subscription(topic, subscription)
        found.skip(count)
        await found.flushes.durable()

    async def skip_all_messages(self, topic: TopicName, subscription: str) -> None:
        """Acknowledge everything that is in the log now."""
        found = await self._subscription(topic, subscription)
        found.acknowledge_through(found.topic.ledger.last_confirmed_entry)
        await found.flushes.durable()

    async def reset_cursor_to_time(self, topic: TopicName, subscription: str, timestamp_ms: int) -> None:
        """Go to the first entry published at or after the time; older ones that were appended later come again."""
        found = await self._subscription(topic, subscription)
        await found.reset(await found.topic.log.position_before_time(timestamp_ms))

    async def reset_cursor(self, topic: TopicName, subscription: str, position: Position, *, is_excluded: bool) -> None:
        """Go to ``position``, or after it if ``is_excluded``."""
        found = await self._subscription(topic, subscription)
        last = found.topic.ledger.last_confirmed_entry
        excluded = is_excluded and found.topic.ledger.contains(position)
        await found.reset(min(position, last) if excluded else _mark_delete_before(found.topic, position))

    async def expire_messages(self, topic: TopicName, subscription: str, seconds: int) -> None:
        """Acknowledge all entries that this cluster appended more than ``seconds`` ago."""
        found = await self._subscription(topic, subscription)
        found.expire_through(found.topic.ledger.position_older_than(seconds), self._environment.clock.now())
        await found.flushes.durable()

    async def set_replicated(self, topic: TopicName, subscription: str, *, replicated: bool) -> None:
        """Start or stop to carry the subscription's progress to the other clusters."""
        found = await self._subscription(topic, subscription)
        if replicated:
            _check_replication_allowed(found.topic)
        elif found.topic.replication_imposed and found.is_durable:
            message = f"{subscription} is replicated because the policy replicateSubscriptionState of its topic says so"
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, message)
        found.topic.set_replicated(found, replicated=replicated)
        await found.flushes.durable()

    async def get_replicated(self, topic: TopicName, subscription: str) -> bool:
        """Whether the subscription's progress is carried to the other clusters."""
        found = await self._subscription(topic, subscription)
        return found.is_replicated and not found.topic.replication_forbidden

    async def begin_snapshot(self, topic: TopicName, without: Collection[str]) -> None:
        """Begin a snapshot for replicated subscriptions."""
        try:
            (await self._get(topic)).begin_snapshot(without)
        except RequestError as error:
            raise _as_admin_error(topic, error) from None

    async def skip_entries(self, topic: TopicName, cluster: str, through: Position) -> None:
        """Let the link to ``cluster`` go past the damaged entries at which it has stopped."""
        try:
            (await self._get(topic)).replicators.to(cluster).own.skip_damaged(through)
        except RequestError as error:
            raise _as_admin_error(topic, error) from None

    # -- messages -------------------------------------------------------------------------------------------------

    async def peek(self, topic: TopicName, subscription: str, message: int) -> tuple[Position, bytes]:
        """The ``message``-th (from 1) unacknowledged entry."""
        found = await self._subscription(topic, subscription)
        ranges = found.unread.undeleted(found.unread.first(), message)
        if sum(each.entries for each in ranges) < message:
            raise message_not_found()
        position = ranges[-1].last
        return position, await found.topic.log.read_entry(position)

    async def read_entry(self, topic: TopicName, position: Position) -> bytes:
        """The entry at ``position``."""
        try:
            return await (await self._get(topic)).log.read_entry(position)
        except RequestError:
            raise message_not_found() from None

    async def last_message_id(self, topic: TopicName) -> MessageId:
        """The id of the newest message; -1:-1 in a topic that has none."""
        position, batch_size = await (await self._get(topic)).log.last_message()
        answer = MessageId.of(position, topic)
        if batch_size is not None:
            answer.batch_size, answer.batch_index = batch_size, batch_size - 1
        return answer

    async def message_id_by_time(self, topic: TopicName, timestamp_ms: int) -> MessageId:
        """The id of the first entry published at or after the time, else of the last one."""
        found = await self._get(topic)
        following = found.ledger.next_position(await found.log.position_before_time(timestamp_ms))
        return MessageId.of(min(following, found.ledger.last_confirmed_entry), topic)

    # -- the broker -----------------------------------------------------------------------------------------------

    def runtime_configuration(self) -> dict[str, str]:
        """Every setting in effect, as text."""
        values = self._environment.config.model_dump(mode="json")
        return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}

    async def health(self) -> None:
        """Return if the broker can store and serve messages; else refuse, saying why."""
        reason = reason_against(self._environment.store.state)
        if reason is None:
            try:
                await self._environment.durable()
            except StorageError as error:
                reason = f"storage has failed: {error}"
        if reason is not None:
            raise AdminError(HTTPStatus.INTERNAL_SERVER_ERROR, reason)

    def load_failures(self) -> Mapping[TopicName, str]:
        """See AdminService."""
        return self._topics.load_failures.reasons

    def storage_refuses(self) -> tuple[bool, bool]:
        """See AdminService."""
        state = self._environment.store.state
        return state.failure is not None, state.shortage is not None

    def limit_hits(self) -> Mapping[str, int]:
        """See AdminService."""
        return self._environment.limit_hits.counts()

    def limit_hit(self, limit: Limit) -> None:
        """See AdminService."""
        self._environment.limit_hits.hit(limit)

    @property
    def bodies(self) -> Share:
        """See AdminService."""
        return self._environment.memory.bodies

    def memory(self) -> Mapping[str, tuple[int, int]]:
        """See AdminService."""
        memory, store = self._environment.memory, self._environment.store
        limits = memory.limits
        return {
            "total": (resident_bytes(), limits.total),
            "publishes": (memory.publishes_in_flight, limits.publishes),
            "unfinished_frames": (memory.frames_held, 2 * memory.first_frames.limit),
            "deferred_frames": (memory.deferred, 2 * memory.first_frames.limit),
            "reads": (memory.reads.used, limits.reads),
            "send_buffers": (memory.sending.used, limits.sending),
            "rest_bodies": (memory.bodies.used, limits.bodies),
            "rest_answers": (memory.answers.used, limits.answers),
            "caches": (store.cached_bytes, limits.cache + limits.tables),
        }

    def _check_new(self, name: TopicName, properties: Mapping[str, str]) -> None:
        """Refuse a topic whose name or properties are too long."""
        try:
            self._topics.check_length(name)
            check_properties(properties, self._environment.config)
        except RequestError as error:
            raise _as_admin_error(name, error) from None

    def loop_stalls(self) -> Histogram:
        """See AdminService."""
        return self._environment.stalls.late

    def commit_times(self) -> Histogram:
        """See AdminService."""
        return self._environment.store.commit_times

    def _partitions(self, topic: TopicName) -> int:
        """How many partitions a partitioned topic has; refuses any other."""
        partitions = self._topics.partitions_of(topic)
        if not partitions:
            raise topic_not_found(topic)
        return partitions

    def _check_unused(self, name: TopicName) -> None:
        """Refuse the deletion of a topic that is in use, or of which that is not known."""
        try:
            found = self._topics.find(name)
        except TopicLoadError as error:
            message = f"{error}. Its clients are refused, so it is not known whether it is in use: delete it with force"
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, message) from None
        except RequestError as error:
            raise _as_admin_error(name, error) from None
        if found.producers or any(each.consumers for each in found.subscriptions.values()):
            raise topic_in_use()

    async def _get(self, name: TopicName) -> Topic:
        try:
            await self._topics.ready(name)
            return self._topics.get(name)
        except RequestError as error:
            raise _as_admin_error(name, error) from None

    async def _get_or_create(self, name: TopicName) -> Topic:
        try:
            await self._topics.ready(name)
            return self._topics.get_or_create(name)
        except RequestError as error:
            raise _as_admin_error(name, error) from None

    async def _subscription(self, name: TopicName, subscription: str) -> Subscription:
        found = (await self._get(name)).subscriptions.get(subscription)
        if found is None:
            raise subscription_not_found(name, subscription)
        return found


@contextmanager
def _refusals(name: TopicName) -> Iterator[None]:
    """Refuse a request for a topic as the broker refuses a client."""
    try:
        yield
    except RequestError as error:
        raise _as_admin_error(name, error) from None


def _accept(_: TopicName) -> None:
    """Let a partition be deleted."""


def _check_replication_allowed(topic: SubscribedTopic) -> None:
    if topic.replication_forbidden:
        raise AdminError(HTTPStatus.METHOD_NOT_ALLOWED, f"{topic.name}: {topic.replication_forbidden}")


def _as_admin_error(name: TopicName, error: RequestError) -> AdminError:
    if isinstance(error, TopicLoadError):
        return AdminError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
    if error.code is ServerError.TopicNotFound:
        return topic_not_found(name)
    if error.code is ServerError.ServiceNotReady:
        return AdminError(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    return AdminError(HTTPStatus.PRECONDITION_FAILED, str(error), error.limit)


def _mark_delete_before(topic: LoggedTopic, position: Position) -> Position:
    """The mark-delete position of a cursor whose first message is at or after ``position``."""
    if position == EARLIEST:
        return topic.log.before_first()
    if position > topic.ledger.last_confirmed_entry:
        return topic.ledger.last_confirmed_entry
    return max(topic.log.before_first(), topic.ledger.previous_position(position))
