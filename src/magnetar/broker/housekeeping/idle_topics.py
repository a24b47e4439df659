"""Topics that nobody uses: they are unloaded, and are still trimmed, expired and held to their quotas.

A topic that is not loaded costs a name and a time in memory. The time says when something in it can become too old. The
topic is loaded then, for a moment. Topics of replicated namespaces stay loaded: links and progress need them at any
time.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import MagnetarError, StorageError
from magnetar.broker.housekeeping.agenda import Agenda
from magnetar.broker.housekeeping.idleness import is_unused, needs_look_in_s
from magnetar.broker.loop.slices import in_slices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.registry import TopicRegistry
    from magnetar.broker.topic.topic import Topic

log = structlog.get_logger(__name__)

LOOK_INTERVAL_S = 1.0
"""Seconds between two rounds of looks at topics that are not loaded."""

LOOKS_PER_ROUND_MAX = 5
"""Topics that one round may load."""

LOOK_AGAIN_S = 86_400.0
"""Longest time in seconds after which a topic is looked at again, so that its cursors release old segments."""


class IdleTopics:
    """Unloads topics that nobody uses, and looks after topics that are not loaded."""

    def __init__(
        self, environment: Environment, topics: TopicRegistry, tend: Callable[[Topic], Awaitable[None]]
    ) -> None:
        """``tend`` is what a look does: it trims and expires one topic. Nothing happens before ``start``."""
        self._environment = environment
        self._topics = topics
        self._tend = tend
        self._agenda = Agenda()
        self._unused_since: dict[TopicName, float] = {}
        """Since when nobody uses a loaded topic, in monotonic seconds, as far as it was seen."""
        self._watches: list[Callable[[], None]] = []

    def start(self) -> None:
        """Note the topics that are not loaded: each is looked at once, soon."""
        resources = self._environment.resources
        self._topics.observe(closed=self._unloaded)
        self._watches = [
            resources.namespaces.watch(self._policies_changed),
            resources.topic_policies.watch(self._topic_policies_changed),
        ]
        now = self._environment.clock.monotonic()
        for tenant in resources.tenants.names():
            for namespace in resources.namespaces.of_tenant(tenant):
                for name in self._topics.names(namespace):
                    if name not in self._topics.loaded:
                        self._agenda.put(name, now)

    def stop(self) -> None:
        """Watch no policies any more."""
        for end in self._watches:
            end()

    @property
    def noted(self) -> int:
        """Number of topics that are not loaded and wait for a look."""
        return len(self._agenda)

    # -- unloading ----------------------------------------------------------------------------------------------

    async def unload_inactive(self) -> None:
        """Unload the topics that nobody has used for the configured time."""
        inactive_max_s = self._environment.config.brokerUnloadInactiveTopicsMaxInactiveDurationSeconds
        if not inactive_max_s:
            return
        now, before, unused = self._environment.clock.monotonic(), self._unused_since, {}
        async for name, topic in in_slices(self._environment.clock, tuple(self._topics.loaded.items())):
            if is_unused(topic):
                unused[name] = before.get(name, now)
        self._unused_since = unused
        for name, since in unused.items():
            if now - since >= inactive_max_s:
                await self._unload_if_unused(name)

    async def _unload_if_unused(self, name: TopicName) -> None:
        topic = self._topics.loaded.get(name)
        if topic is not None and is_unused(topic):
            self._topics.unload(name)
            await self._topics.unloaded(name)

    # -- looking after ------------------------------------------------------------------------------------------

    async def look_at_unloaded(self) -> None:
        """Trim and expire the topics whose time has come, at most LOOKS_PER_ROUND_MAX."""
        if not self._environment.store.state.healthy:
            return  # nothing could be trimmed
        for _ in range(LOOKS_PER_ROUND_MAX):
            name = self._agenda.take_due(self._environment.clock.monotonic())
            if name is None:
                return
            await self._look_at(name)

    async def _look_at(self, name: TopicName) -> None:
        if name in self._topics.loaded or self._topics.is_shut(name):
            return
        try:
            if not self._topics.exists(name):
                return
            await self._topics.ready(name)
            topic = self._topics.get(name)
        except MagnetarError as error:  # the log names a topic that cannot be loaded once
            log.debug("idle_topic_not_loaded", topic=str(name), error=str(error))
            self._agenda.put(name, self._environment.clock.monotonic() + LOOK_AGAIN_S)
            return
        await self._tend(topic)
        with suppress(StorageError):
            await self._environment.durable()  # trimming waits for a barrier as well
        if topic.deduplication.is_ready:  # else it holds entries back until it has read them
            await self._unload_if_unused(name)

    def _unloaded(self, topic: Topic) -> None:
        """Plan the next look at a topic that is being unloaded."""
        clock = self._environment.clock
        needed_s = needs_look_in_s(topic, clock.now())
        wait_s = LOOK_AGAIN_S if needed_s is None else min(needed_s, LOOK_AGAIN_S)
        wait_s = max(wait_s, self._environment.config.retentionCheckIntervalInSeconds)
        self._agenda.put(topic.name, clock.monotonic() + wait_s)

    def _policies_changed(self, namespace: NamespaceName) -> None:
        self._look_soon(lambda name: name.namespace_name == namespace)

    def _topic_policies_changed(self, changed: TopicName) -> None:
        self._look_soon(lambda name: name.partitioned_topic == changed)

    def _look_soon(self, concerns: Callable[[TopicName], bool]) -> None:
        now = self._environment.clock.monotonic()
        for name in [name for name in self._agenda.names() if concerns(name)]:
            self._agenda.put(name, now)
