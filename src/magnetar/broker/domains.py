"""The topics of both domains, persistent and non-persistent: the one place that chooses between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.broker.non_persistent.names import AllNames
from magnetar.broker.non_persistent.registry import NonPersistentTopics
from magnetar.broker.replication.link_carriers import LinkCarriers
from magnetar.broker.replication.link_watches import LinkWatches
from magnetar.broker.routing import Routing
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.topic.interfaces import ServedTopic
    from magnetar.broker.topic.registry import TopicRegistry
    from magnetar.broker.topic.topic_lists import NameSource, TopicList


class LinkedTopics(Protocol):
    """The topics of one domain, as links use them."""

    def absence(self, name: TopicName) -> Awaitable[None] | None:
        """Return what a link awaits before it can use a topic; None if there is nothing to await."""
        ...

    def get_or_create(self, name: TopicName) -> ServedTopic:
        """Return the topic of a link, load or create it."""
        ...


class DomainTopics(Protocol):
    """The topics of one domain, as sessions use them. Methods raise RequestError with the reason of a refusal."""

    @property
    def linked(self) -> LinkedTopics:
        """The topics as links use them."""
        ...

    def check_served(self, name: TopicName) -> object:
        """Raise RequestError if this cluster does not serve the topic's namespace."""
        ...

    def check_length(self, name: TopicName) -> None:
        """Raise InvalidTopicNameError for a new name that is too long."""
        ...

    def partitions_of(self, name: TopicName) -> int | None:
        """Return the number of partitions, 0 for a topic that is not partitioned; None if neither exists."""
        ...

    def partitions_for_client(self, name: TopicName, *, create: bool) -> int:
        """Return the number of partitions; the topic may be created."""
        ...

    def must_wait(self, name: TopicName) -> bool:
        """Return whether no client may attach before ``ready`` returns."""
        ...

    async def ready(self, name: TopicName) -> None:
        """Return when clients may attach to the topic, if it exists."""
        ...

    def get_or_create(self, name: TopicName) -> ServedTopic:
        """Return the topic, load or create it."""
        ...

    def get(self, name: TopicName) -> ServedTopic:
        """Return the topic."""
        ...


class Domains:
    """The topics of this cluster. Used on the event loop's thread."""

    def __init__(self, persistent: TopicRegistry) -> None:
        """Serve ``persistent`` topics, and non-persistent ones."""
        self.persistent = persistent
        self.non_persistent = NonPersistentTopics(persistent)
        self._environment = persistent.environment
        self.routing = Routing(persistent.environment)
        self.link_watches = LinkWatches(persistent.environment)
        self.link_carriers = LinkCarriers(persistent.environment)
        others, stored = self.non_persistent.names, self._environment.resources.topics
        self._sources: dict[int, NameSource] = {
            pb.CommandGetTopicsOfNamespace.PERSISTENT: stored,
            pb.CommandGetTopicsOfNamespace.NON_PERSISTENT: others,
            pb.CommandGetTopicsOfNamespace.ALL: AllNames(stored, others),
        }

    async def stop(self) -> None:
        """Close all topics."""
        self.routing.stop()
        self.non_persistent.stop()
        await self.persistent.stop()

    def of(self, name: TopicName) -> DomainTopics:
        """Return the topics of the domain of ``name``; raises RequestError if the broker does not serve them."""
        config = self._environment.config
        if name.is_persistent and not config.enablePersistentTopics:
            raise RequestError(ServerError.NotAllowedError, f"Persistent topics are disabled on this broker: {name}")
        if not name.is_persistent and not config.enableNonPersistentTopics:
            message = f"Non-persistent topics are disabled on this broker: {name}"
            raise RequestError(ServerError.NotAllowedError, message)
        return self.persistent if name.is_persistent else self.non_persistent

    def find_names(
        self,
        namespace: NamespaceName,
        mode: int,
        pattern: str,
        done: Callable[[TopicList], None],
        *,
        with_system_topics: bool,
    ) -> None:
        """Call ``done`` with the topics of a namespace of the domains of ``mode``; see ``TopicLists.find``."""
        source = self._sources[mode]
        self.persistent.lists.find(namespace, pattern, done, source, with_system_topics=with_system_topics)
