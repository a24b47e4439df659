"""Topics that are out of reach because their namespace does not exist, and their deletion."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from magnetar.admin.models.metadata_sync import StrandedTopic
from magnetar.admin.service import topic_not_found
from magnetar.base.names import NamespaceName
from magnetar.broker.environment import settle
from magnetar.broker.subscription.names import is_of_a_subscription
from magnetar.broker.topic.damaged_topics import delete_unloaded
from magnetar.cursor.store import cursor_ledgers
from magnetar.ledger.ledger_list import listed_ledgers
from magnetar.metadata.resources import MANAGED_LEDGERS, managed_ledger_path

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Generator, Iterator

    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.registry import TopicRegistry


def stranded_topics(environment: Environment) -> Iterator[list[TopicName]]:
    """Yield, for each namespace with topics, those that are stranded: none if the namespace exists.

    Namespaces and topics may come and go between two of them.
    """
    metadata, resources = environment.metadata, environment.resources
    for tenant in metadata.children(MANAGED_LEDGERS):
        for name in metadata.children(f"{MANAGED_LEDGERS}/{tenant}"):
            namespace = NamespaceName(tenant, name)
            is_there = resources.namespaces.exists(namespace)
            yield [] if is_there else list(filter(resources.topics.exists, resources.topics.of_namespace(namespace)))


class StrandedTopics:
    """See ``magnetar.admin.topic_service.StrandedOperations``."""

    def __init__(self, environment: Environment, topics: TopicRegistry) -> None:
        """Operate on ``topics``."""
        self._environment = environment
        self._topics = topics

    def all(self) -> Generator[None, None, dict[str, StrandedTopic]]:
        """Return the stranded topics by name, in steps."""
        found = {}
        for topics in stranded_topics(self._environment):
            for topic in topics:
                found[str(topic)] = self._described(topic)
                yield
            yield
        return dict(sorted(found.items()))

    async def delete(self, topic: TopicName) -> None:
        """Delete a stranded topic with its messages and subscriptions; refuses other topics with 404."""
        if not self._is_stranded(topic):
            raise topic_not_found(topic)
        if topic in self._topics.loaded:
            self._topics.unload(topic)
        await self._topics.unloaded(topic)
        if not self._is_stranded(topic):  # the namespace was created meanwhile
            raise topic_not_found(topic)
        deleted: Future[None] = self._environment.loop.create_future()
        delete_unloaded(self._environment, topic, partial(settle, deleted), event="stranded_topic_deleted")
        await deleted
        await self._forget(topic.partitioned_topic)

    async def _forget(self, topic: TopicName) -> None:
        """Delete the documents of a topic without partitions."""
        resources = self._environment.resources
        partitioned = resources.partitioned_topics.get(topic)
        if partitioned is not None:
            if any(map(resources.topics.exists, map(topic.partition, range(partitioned.partitions)))):
                return
            await resources.partitioned_topics.delete(topic)
        await resources.topic_policies.forget(topic)

    def _is_stranded(self, topic: TopicName) -> bool:
        resources = self._environment.resources
        return not resources.namespaces.exists(topic.namespace_name) and resources.topics.exists(topic)

    def _described(self, topic: TopicName) -> StrandedTopic:
        store, metadata = self._environment.store, self._environment.metadata
        stored = metadata.get(managed_ledger_path(topic))
        ledgers = (listed_ledgers(stored.value) if stored is not None else None) or []
        cursors = [unquote_plus(path.rpartition("/")[2]) for path, _ in cursor_ledgers(metadata, topic)]
        return StrandedTopic(
            storage_size=sum(map(store.size_bytes, ledgers)),
            subscriptions=sorted(filter(is_of_a_subscription, cursors)),
        )
