"""Reports of the namespaces that are replicated to a cluster, for the pipeline (protocol: Watches of links).

A report has the changes since the last one. A namespace that changes often between two reports is reported once.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import structlog

from magnetar.base.errors import RequestError, ServerError, StorageError
from magnetar.broker.replication.reports import REPORT_INTERVAL_S, REPORTED_AT_ONCE, sent
from magnetar.wire import commands

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.replication.reports import Client

log = structlog.get_logger(__name__)


class Report(NamedTuple):
    """Changes since the last report."""

    added: list[NamespaceName]
    removed: list[NamespaceName]
    topics_changed: list[NamespaceName]
    has_more: bool
    """Whether further changes remain for the next report."""


class LinkWatch:
    """The namespaces that are replicated to one cluster, and the changes that are not reported yet."""

    def __init__(self, target: str) -> None:
        """Begin without namespaces."""
        self.target = target
        self._linked_topics: dict[NamespaceName, set[TopicName]] = {}
        """The topics whose own policies replicate them to the cluster."""
        self._present: dict[NamespaceName, None] = {}
        self._reported: dict[NamespaceName, None] = {}
        self._changed: dict[NamespaceName, None] = {}

    def note(self, namespace: NamespaceName, *, is_replicated: bool) -> bool:
        """Note whether a namespace, or one of its topics, is replicated to the cluster; return whether that is new."""
        is_replicated = is_replicated or namespace in self._linked_topics
        if is_replicated == (namespace in self._present):
            return False
        if is_replicated:
            self._present[namespace] = None
        else:
            del self._present[namespace]
        self._changed[namespace] = None
        return True

    def note_topic(self, topic: TopicName, *, is_linked: bool) -> None:
        """Note whether the own policy of a topic replicates it to the cluster; ``note`` must follow."""
        topics = self._linked_topics.setdefault(topic.namespace_name, set())
        if is_linked:
            topics.add(topic)
        else:
            topics.discard(topic)
        if not topics:
            del self._linked_topics[topic.namespace_name]

    def topics_changed(self, namespace: NamespaceName) -> bool:
        """Note that topics of a namespace may have come or gone; return whether it is replicated to the cluster."""
        if namespace not in self._present:
            return False
        self._changed[namespace] = None
        return True

    def take(self) -> Report:
        """Return the next report; the oldest changes come first."""
        some = list(islice(self._changed, REPORTED_AT_ONCE))
        added = [each for each in some if each in self._present and each not in self._reported]
        removed = [each for each in some if each in self._reported and each not in self._present]
        topics_changed = [each for each in some if each in self._present and each in self._reported]
        for each in some:
            del self._changed[each]
        self._reported.update(dict.fromkeys(added))
        for each in removed:
            del self._reported[each]
        return Report(added, removed, topics_changed, bool(self._changed))


class LinkWatches:
    """The watches of all clients. Used on the event loop's thread."""

    def __init__(self, environment: Environment) -> None:
        """Begin without watches."""
        self._environment = environment
        self._watches: dict[Client, tuple[LinkWatch, asyncio.Event]] = {}
        """With the event that is set when there is something to report."""
        self._ends: list[Callable[[], None]] = []
        """End the watches of the metadata store, which exist while there are clients."""

    async def serve(self, client: Client, request_id: int, target: str) -> None:
        """Answer WATCH_LINKS, and report to the client until the task is cancelled.

        Raises RequestError if the client has a watch already, StorageError if the metadata store has failed.
        """
        if client in self._watches:
            message = "the connection has a watch of links already"
            raise RequestError(ServerError.NotAllowedError, message)
        watch, news = self._watches[client] = LinkWatch(target), asyncio.Event()
        try:
            self._observe()
            await self._environment.slices.run(self._fill(watch))
            await self._environment.recorded()
            client.write(commands.success(request_id=request_id))
            while True:
                news.clear()
                if not await self._report(client, watch):
                    await asyncio.sleep(REPORT_INTERVAL_S)
                    await news.wait()
        finally:
            del self._watches[client]
            if not self._watches:
                self._disregard()

    async def _report(self, client: Client, watch: LinkWatch) -> bool:
        """Return when the client has got a report; return whether another one must follow at once."""
        has_more = False

        def make() -> bytes:
            nonlocal has_more
            report = watch.take()
            has_more = report.has_more
            return commands.links_changed(
                added=map(str, report.added),
                removed=map(str, report.removed),
                topics_changed=map(str, report.topics_changed),
                has_more=has_more,
            )

        await sent(client, make)
        return has_more

    def _fill(self, watch: LinkWatch) -> Generator[None, None, None]:
        """Note all namespaces, in steps. Changes meanwhile are noted as well."""
        resources = self._environment.resources
        for tenant in resources.tenants.names():
            for namespace in resources.namespaces.of_tenant(tenant):
                for topic in resources.topic_policies.of_namespace(namespace):
                    watch.note_topic(topic, is_linked=watch.target in self._own_targets_of(topic))
                    yield
                watch.note(namespace, is_replicated=watch.target in self._targets_of(namespace))
                yield

    def _observe(self) -> None:
        if not self._ends:
            resources = self._environment.resources
            self._ends = [
                resources.namespaces.watch(self._namespace_changed),
                resources.topics.watch(self._came_or_went),
                resources.topic_policies.watch(self._topic_changed),
            ]

    def _disregard(self) -> None:
        for end in self._ends:
            end()
        self._ends = []

    def _namespace_changed(self, namespace: NamespaceName) -> None:
        targets = self._targets_of(namespace)
        for watch, news in self._watches.values():
            if watch.note(namespace, is_replicated=watch.target in targets):
                news.set()

    def _topic_changed(self, topic: TopicName) -> None:
        targets = self._own_targets_of(topic)
        for watch, _ in self._watches.values():
            watch.note_topic(topic, is_linked=watch.target in targets)
        self._namespace_changed(topic.namespace_name)

    def _came_or_went(self, namespace: NamespaceName) -> None:
        for watch, news in self._watches.values():
            if watch.topics_changed(namespace):
                news.set()

    def _targets_of(self, namespace: NamespaceName) -> list[str]:
        """Return the clusters that a namespace is replicated to; none if its policies are unreadable."""
        try:
            return self._environment.targets_of(namespace)
        except StorageError as error:
            log.warning("namespace_not_replicated", namespace=str(namespace), error=str(error))
            return []

    def _own_targets_of(self, topic: TopicName) -> list[str]:
        """Return the clusters that the policy of a topic replicates it to; none if it names none, or is unreadable."""
        try:
            return self._environment.own_targets_of(topic) or []
        except StorageError as error:
            log.warning("topic_not_replicated", topic=str(topic), error=str(error))
            return []
