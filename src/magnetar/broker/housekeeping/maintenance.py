"""Periodic maintenance of all topics: rates, trimming, expiry, backlog quotas and deduplication.

Nothing is deleted or acknowledged because of its age while the wall clock is untrusted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import MagnetarError
from magnetar.base.tasks import report_bug, start_task
from magnetar.broker.housekeeping.clock_watch import ClockWatch
from magnetar.broker.housekeeping.idle_topics import ROUND_INTERVAL_S, IdleTopics
from magnetar.broker.housekeeping.idleness import INACTIVE_SINCE, is_inactive
from magnetar.broker.housekeeping.inactivity import expiring, has_expired
from magnetar.broker.housekeeping.storage_watch import StorageWatch
from magnetar.broker.housekeeping.trimming import trimming
from magnetar.broker.loop.slices import SharedSlices
from magnetar.cursor.store import release_segment, renewal_of_checkpoints

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator

    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.registry import TopicRegistry
    from magnetar.broker.topic.topic import Topic
    from magnetar.cursor.cursor import Cursor

    TopicWork = Callable[[Topic], Iterator[None]]
    """The work for one topic, in steps."""

log = structlog.get_logger(__name__)

RATE_INTERVAL_S = 10.0
"""Seconds over which rates are measured (Pulsar: ``statsUpdateFrequencyInSecs``, 60)."""

STORAGE_INTERVAL_S = 1.0
"""Seconds between two checks of the free disk space."""

LOAD_RETRY_INTERVAL_S = 30.0
"""Seconds between two attempts to load the replicated topics that could not be loaded."""

DELETION_RETRY_INTERVAL_S = 30.0
"""Seconds between two attempts to finish deletions of partitioned topics."""

CURSOR_SEGMENTS_MAX = 4
"""Number of the newest log segments in which the last checkpoint of a cursor may stay."""


class Maintenance:
    """The periodic work of one broker, on the event loop's thread."""

    def __init__(self, environment: Environment, topics: TopicRegistry) -> None:
        """Do nothing before ``start``."""
        self._environment = environment
        self._topics = topics
        clock = environment.clock
        self._storage_watch = StorageWatch(environment, topics)
        self._clock_watch = ClockWatch(clock.now(), clock.monotonic())
        self._slices = SharedSlices(environment.loop, clock)
        """All rounds together take one slice in each turn of the event loop."""
        self.idle_topics = IdleTopics(environment, topics, self._maintain, self._slices)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the work; the first round of each task runs after its interval."""
        config = self._environment.config
        self.idle_topics.start()
        for interval_s, work in (
            (RATE_INTERVAL_S, self.measure),
            (STORAGE_INTERVAL_S, self.check_storage),
            (config.retentionCheckIntervalInSeconds, self.trim),
            (config.messageExpiryCheckIntervalInMinutes * 60, self.expire),
            (config.subscriptionExpiryCheckIntervalInMinutes * 60, self.expire_subscriptions),
            (config.brokerDeleteInactiveTopicsFrequencySeconds, self.delete_inactive_topics),
            (config.backlogQuotaCheckIntervalInSeconds, self.check_backlogs),
            (config.brokerDeduplicationSnapshotFrequencyInSeconds, self.maintain_deduplication),
            (LOAD_RETRY_INTERVAL_S, self.retry_loading),
            (DELETION_RETRY_INTERVAL_S, self.finish_deletions),
            (config.brokerUnloadInactiveTopicsFrequencySeconds, self.idle_topics.unload_inactive),
            (ROUND_INTERVAL_S, self.idle_topics.maintain_unloaded),
        ):
            self._tasks.append(start_task(self._environment.loop, repeat(interval_s, work), work.__name__))

    def stop(self) -> None:
        """Stop the work; rounds in progress are cancelled."""
        self.idle_topics.stop()
        for task in self._tasks:
            task.cancel()

    async def measure(self) -> None:
        """Update the rates."""
        now = self._environment.clock.monotonic()
        await self._each_topic(lambda topic: measuring(topic, now))

    async def check_storage(self) -> None:
        """Pause publishing while the disk is full, and resume it afterwards."""
        await self._storage_watch.check()

    async def trim(self) -> None:
        """Delete the entries that all subscriptions have acknowledged and that no policy retains."""
        by_age = self._ages_are_trusted()
        await self._each_topic(lambda topic: trimming(topic, by_age=by_age))
        await self._release_segments()

    async def _release_segments(self) -> None:
        """Move the checkpoints of cursors out of old segments, except for the newest CURSOR_SEGMENTS_MAX segments."""
        by_ledger: dict[int, Cursor | None] = {}

        def note(topic: Topic) -> Iterator[None]:
            for cursor in topic.all_cursors():
                if cursor.ledger_id is not None:
                    by_ledger[cursor.ledger_id] = cursor
                yield

        await self._each_topic(note)
        store = self._environment.store

        def releases() -> Generator[None, None, None]:
            for segment in store.segments()[:-CURSOR_SEGMENTS_MAX]:
                release_segment(store, segment, by_ledger)
                yield

        await self._slices.run(releases())

    async def maintain_deduplication(self) -> None:
        """Write due snapshots of the producers' sequence ids, and remove inactive producers."""
        await self._each_topic(_in_one_step(lambda topic: topic.deduplication.maintain()))

    async def retry_loading(self) -> None:
        """Retry to load the replicated topics that could not be loaded; links need them even without clients."""
        self._topics.linked.retry()

    async def finish_deletions(self) -> None:
        """Finish deletions of partitioned topics that failed halfway or that an earlier run of the broker started."""
        await self._topics.partitioned.finish_deletions()

    async def expire(self) -> None:
        """Acknowledge messages that are older than their topic's TTL, for every subscription.

        The age of a message is the time since this cluster appended it (``ManagedLedger.position_older_than``).
        Links still replicate expired entries; these expire in the target.
        """
        if self._ages_are_trusted():
            await self._each_topic(self._expiry)

    async def expire_subscriptions(self) -> None:
        """Delete subscriptions that have had no consumers for the time of their policy."""
        if self._ages_are_trusted():
            now = self._environment.clock.now()
            await self._each_topic(lambda topic: expiring(topic, now))

    async def delete_inactive_topics(self) -> None:
        """Delete topics that nobody has used for the time of their policy."""
        if self._ages_are_trusted():
            for topic in tuple(self._topics.loaded.values()):
                if topic.policies.inactive_topics.deleteWhileInactive or INACTIVE_SINCE in topic.ledger.properties:
                    await self._delete_if_inactive(topic)

    async def _delete_if_inactive(self, topic: Topic) -> None:
        """Delete a topic, unless somebody uses it again before the first step of the deletion."""
        name, due = topic.name, False

        def check(topic: Topic) -> Iterator[None]:
            nonlocal due
            due = has_expired(topic, self._environment.clock.now())
            yield

        await self._slices.run(self._work_on(topic, check))
        if not due:
            return

        def deletion() -> Generator[None, None, asyncio.Future[None] | None]:
            if self._topics.loaded.get(name) is not topic or not is_inactive(topic):
                return None  # somebody has come in the meantime
            log.info("inactive_topic_deleted", topic=str(name), entries=topic.ledger.entries)
            return (yield from self._topics.deletion(name))

        try:
            deleted = await self._slices.run(deletion())
            if deleted is None:
                return
            await deleted
            await self._environment.resources.topic_policies.forget(name)
        except MagnetarError as error:
            log.warning("inactive_topic_not_deleted", topic=str(name), error=str(error))

    async def check_backlogs(self) -> None:
        """Apply the policies of exceeded backlog quotas."""
        now, by_age = self._environment.clock.now(), self._ages_are_trusted()
        await self._each_topic(lambda topic: topic.backlog_quotas.enforcement(now, by_age=by_age))

    def _expiry(self, topic: Topic) -> Iterator[None]:
        seconds = topic.policies.message_ttl_s
        if not seconds:
            return
        now = self._environment.clock.now()
        through = topic.ledger.position_older_than(seconds)
        for subscription in topic.each_subscription():
            expired = subscription.expire_through(through, now)
            if expired:
                log.info("messages_expired", topic=str(topic.name), subscription=subscription.name, entries=expired)
            yield

    async def _maintain(self, topic: Topic) -> None:
        """Do the periodic work for one topic that was loaded for this purpose."""
        now, by_age = self._environment.clock.now(), self._ages_are_trusted()

        def work(topic: Topic) -> Iterator[None]:
            if by_age:
                yield from self._expiry(topic)
                yield from expiring(topic, now)
            yield from topic.backlog_quotas.enforcement(now, by_age=by_age)
            yield from trimming(topic, by_age=by_age)
            yield from renewal_of_checkpoints(self._environment.store, topic.all_cursors(), CURSOR_SEGMENTS_MAX)

        await self._slices.run(self._work_on(topic, work))
        if by_age:
            await self._delete_if_inactive(topic)

    async def _each_topic(self, work: TopicWork) -> None:
        """Run the steps of ``work`` for every loaded topic, in slices."""
        topics = tuple(self._topics.loaded.values())

        def steps() -> Generator[None, None, None]:
            for topic in topics:
                yield from self._work_on(topic, work)

        await self._slices.run(steps())

    def _work_on(self, topic: Topic, work: TopicWork) -> Generator[None, None, None]:
        """Do ``work`` on one topic while it is loaded; a failure affects only this topic."""
        loaded = self._topics.loaded
        if loaded.get(topic.name) is not topic:
            return
        try:
            for _ in work(topic):
                yield
                if loaded.get(topic.name) is not topic:
                    return
        except MagnetarError as error:  # the topic cannot be read
            log.warning("maintenance_failed", topic=str(topic.name), error=str(error))
        except Exception as error:  # noqa: BLE001 - the root of one topic's work: the other topics have theirs
            report_bug(self._environment.loop, f"maintenance of {topic.name} failed", error)
        yield

    def _ages_are_trusted(self) -> bool:
        clock = self._environment.clock
        jump = self._clock_watch.jump(clock.now(), clock.monotonic())
        if jump:
            log.warning("clock_jumped", seconds=round(jump), effect="no deletion by age until the clock is trusted")
        return not jump


def measuring(topic: Topic, now: float) -> Iterator[None]:
    """Update the rates and compact the delayed entries, in steps; ``now`` in monotonic seconds."""
    for arrivals in (topic.arrivals, *topic.producers.sources.values()):
        arrivals.rates.update(now, arrivals.messages_in, arrivals.bytes_in)
    topic.ledger.statistics.refresh(now, topic.ledger.entries_added)
    for producer in tuple(topic.producers.clients()):
        producer.rates.update(now, producer.messages_in, producer.bytes_in)
        yield
    for subscription in topic.each_subscription():
        subscription.rates.update(now, *subscription.consumers.counters(), subscription.expired)
        yield
        for consumer in tuple(subscription.consumers):
            consumer.rates.update(now, *consumer.counters)
            yield
    for replicator in topic.replicators.values():
        replicator.rates_out.update(now, *replicator.sent)
    if topic.rates.follows_publishing:
        topic.apply_rates()
    topic.delayed.tidy()


def _in_one_step(work: Callable[[Topic], None]) -> TopicWork:
    def steps(topic: Topic) -> Iterator[None]:
        work(topic)
        yield

    return steps


async def repeat(interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
    """Do ``work`` after each interval; an error is logged."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            await work()
        except Exception:
            log.exception("maintenance_failed", work=work.__name__)
