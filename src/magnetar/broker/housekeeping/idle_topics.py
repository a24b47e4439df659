"""Unused topics: they are unloaded, and loaded again for short times to trim and expire them.

A topic that is not loaded costs a name and a time in memory: the time at which its next entry becomes too old. The
topic is loaded for a moment then. Topics of replicated namespaces stay loaded, because links and progress need them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import MagnetarError, StorageError
from magnetar.base.limits import Limit
from magnetar.broker.housekeeping.agenda import Agenda
from magnetar.broker.housekeeping.idleness import is_unused, maintenance_due_in_s
from magnetar.broker.loop.slices import SlicedWork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.loop.slices import SharedSlices
    from magnetar.broker.topic.registry import TopicRegistry
    from magnetar.broker.topic.topic import Topic

log = structlog.get_logger(__name__)

ROUND_INTERVAL_S = 1.0
"""Seconds between two rounds of checks of topics that are not loaded."""

TOPICS_PER_ROUND_MAX = 5
"""Maximum number of topics that one round loads."""

MAINTENANCE_INTERVAL_MAX_S = 86_400.0
"""Maximum time in seconds between two checks of a topic; its cursors release old segments then."""


class IdleTopics:
    """Unloads unused topics, and maintains topics that are not loaded."""

    def __init__(
        self,
        environment: Environment,
        topics: TopicRegistry,
        maintain: Callable[[Topic], Awaitable[None]],
        slices: SharedSlices,
    ) -> None:
        """Do nothing before ``start``. ``maintain`` maintains one topic: it trims and expires it."""
        self._environment = environment
        self._topics = topics
        self._maintain = maintain
        self._slices = slices
        self._agenda = Agenda()
        self._noting: SlicedWork[NamespaceName | TopicName | None, TopicName] = SlicedWork(
            environment.loop, environment.clock
        )
        """Topics that are put on the agenda: at the start, or after a change of policies."""
        self._unused_since: dict[TopicName, float] = {}
        """Times since which loaded topics have been unused, in monotonic seconds, as far as observed."""
        self._watches: list[Callable[[], None]] = []

    def start(self) -> None:
        """Schedule a first check of each topic that is not loaded."""
        resources = self._environment.resources
        self._topics.observe(closed=self._unloaded)
        self._watches = [
            resources.namespaces.watch(self._policies_changed),
            resources.topic_policies.watch(self._topic_policies_changed),
        ]
        now = self._environment.clock.monotonic()

        def note(name: TopicName) -> None:
            if name not in self._topics.loaded and self._agenda.at(name) is None:
                self._agenda.put(name, now)

        self._noting.start(None, resources.topics.all(), note)

    def stop(self) -> None:
        """Stop watching policies."""
        for end in self._watches:
            end()
        self._noting.stop()

    @property
    def noted(self) -> int:
        """Number of scheduled topics that are not loaded."""
        return len(self._agenda)

    # -- unloading ----------------------------------------------------------------------------------------------

    async def unload_inactive(self) -> None:
        """Unload the topics that have been unused for the configured time; all unused ones if memory is short."""
        inactive_max_s = self._environment.config.brokerUnloadInactiveTopicsMaxInactiveDurationSeconds
        if not inactive_max_s:
            return
        is_short = self._environment.objects.is_short
        inactive = await self._slices.run(self._inactive(0.0 if is_short else inactive_max_s))
        if is_short:
            log.warning("memory_is_short", limit=str(Limit.MEMORY), topics_to_unload=len(inactive))
        for name in inactive:
            await self._unload_if_unused(name)

    def _inactive(self, inactive_max_s: float) -> Generator[None, None, list[TopicName]]:
        """Look at all loaded topics in steps; return those that nobody has used for ``inactive_max_s`` seconds."""
        now, before = self._environment.clock.monotonic(), self._unused_since
        unused: dict[TopicName, float] = {}
        inactive: list[TopicName] = []
        for name, topic in tuple(self._topics.loaded.items()):
            if is_unused(topic):
                since = unused[name] = before.get(name, now)
                if now - since >= inactive_max_s:
                    inactive.append(name)
            yield
        self._unused_since = unused
        return inactive

    async def _unload_if_unused(self, name: TopicName) -> None:
        topic = self._topics.loaded.get(name)
        if topic is not None and is_unused(topic):
            self._topics.unload(name)
            await self._topics.unloaded(name)

    # -- topics that are not loaded ---------------------------------------------------------------------------------

    async def maintain_unloaded(self) -> None:
        """Trim and expire the topics that are due, at most TOPICS_PER_ROUND_MAX."""
        if not self._environment.store.state.healthy:
            return  # trimming is impossible now
        for _ in range(TOPICS_PER_ROUND_MAX):
            name = self._agenda.take_due(self._environment.clock.monotonic())
            if name is None:
                return
            await self._maintain_one(name)

    async def _maintain_one(self, name: TopicName) -> None:
        if name in self._topics.loaded:
            return
        if self._topics.is_shut(name):  # a client loads it perhaps, which may fail
            retry_s = self._environment.config.retentionCheckIntervalInSeconds
            self._agenda.put(name, self._environment.clock.monotonic() + retry_s)
            return
        try:
            if not self._topics.exists(name):
                return
            await self._topics.ready(name)
            topic = self._topics.get(name)
        except MagnetarError as error:  # the failure to load was logged when it first occurred
            log.debug("idle_topic_not_loaded", topic=str(name), error=str(error))
            self._agenda.put(name, self._environment.clock.monotonic() + MAINTENANCE_INTERVAL_MAX_S)
            return
        await self._maintain(topic)
        with suppress(StorageError):
            await self._environment.durable()  # trimming waits for a barrier as well
        if topic.deduplication.is_ready:  # otherwise it still needs entries that it has not read
            await self._unload_if_unused(name)

    def _unloaded(self, topic: Topic) -> None:
        """Schedule the next check of a topic that is being unloaded."""
        clock = self._environment.clock
        needed_s = maintenance_due_in_s(topic, clock.now())
        wait_s = MAINTENANCE_INTERVAL_MAX_S if needed_s is None else min(needed_s, MAINTENANCE_INTERVAL_MAX_S)
        wait_s = max(wait_s, self._environment.config.retentionCheckIntervalInSeconds)
        self._agenda.put(topic.name, clock.monotonic() + wait_s)

    def _policies_changed(self, namespace: NamespaceName) -> None:
        self._look_soon(namespace, lambda name: name.namespace_name == namespace)

    def _topic_policies_changed(self, changed: TopicName) -> None:
        self._look_soon(changed, lambda name: name.partitioned_topic == changed)

    def _look_soon(self, changed: NamespaceName | TopicName, concerns: Callable[[TopicName], bool]) -> None:
        """Plan a look, as soon as possible, at the topics that are not loaded and whose policies have changed."""
        now = self._environment.clock.monotonic()

        def note(name: TopicName) -> None:
            if concerns(name) and self._agenda.at(name) is not None:
                self._agenda.put(name, now)

        self._noting.start(changed, self._agenda.names(), note)
