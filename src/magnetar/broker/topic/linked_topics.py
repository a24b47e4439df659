"""Topics that are replicated: they are loaded without a client, and links create them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import MagnetarError, RequestError, ServerError, StorageError, TopicLoadError
from magnetar.base.limits import Limit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.load_failures import LoadFailures
    from magnetar.broker.topic.partitioned_topics import PartitionedTopics
    from magnetar.broker.topic.topic import Topic
    from magnetar.metadata.policies import Policies

log = structlog.get_logger(__name__)

DELETION_GRACE_S = 60.0
"""Seconds for which no link makes a topic again that was deleted here: time to delete it in the other clusters too."""


class AllTopics(Protocol):
    """All topics of this cluster."""

    @property
    def environment(self) -> Environment:
        """What every part of the broker shares."""
        ...

    @property
    def loaded(self) -> Mapping[TopicName, Topic]:
        """The topics that are loaded."""
        ...

    @property
    def load_failures(self) -> LoadFailures:
        """The topics that could not be loaded when they were last asked for."""
        ...

    @property
    def partitioned(self) -> PartitionedTopics:
        """The topics that have partitions."""
        ...

    def names(self, namespace: NamespaceName) -> list[TopicName]:
        """The topics of a namespace, partitions as topics of their own."""
        ...

    def exists(self, name: TopicName) -> bool:
        """Whether a topic is there, loaded or not."""
        ...

    def partitions_of(self, name: TopicName) -> int | None:
        """Number of partitions, 0 for a topic without; None when there is no such topic."""
        ...

    def may_create(self, name: TopicName) -> bool:
        """Whether a topic that is missing may be created by who uses it."""
        ...

    def check_served(self, name: TopicName) -> Policies:
        """The policies of the topic's namespace; raises RequestError if this cluster does not serve it."""
        ...

    def get(self, name: TopicName) -> Topic:
        """The topic if it exists; raises RequestError."""
        ...

    def get_or_create(self, name: TopicName, *, longer: bool) -> Topic:
        """The topic, loaded or created; raises RequestError."""
        ...

    def is_shut(self, name: TopicName) -> bool:
        """Whether nobody is let into the topic."""
        ...

    def must_wait(self, name: TopicName) -> bool:
        """Whether nobody is let into the topic now. Raises RequestError if it cannot be loaded."""
        ...


class LinkedTopics:
    """The replicated topics of this cluster. Everything happens on the event loop's thread."""

    def __init__(self, topics: AllTopics) -> None:
        """No topic was deleted."""
        self._topics = topics
        self._environment = topics.environment
        self._deleted_at: dict[TopicName, float] = {}
        """When topics were deleted, in monotonic seconds, as far as that still matters."""

    def names(self, namespace: NamespaceName) -> list[TopicName]:
        """The topics of ``namespace`` if it is replicated, else none."""
        return self._topics.names(namespace) if self._is_replicated(namespace) else []

    def _is_replicated(self, namespace: NamespaceName) -> bool:
        """Whether a namespace is replicated from here; policies that cannot be read concern this namespace only."""
        try:
            return bool(self._environment.targets_of(namespace))
        except StorageError as error:
            log.exception("namespace_not_loaded", namespace=str(namespace), error=str(error))
            return False

    # -- loading ------------------------------------------------------------------------------------------------

    def load_all(self, progress: Callable[[int, int], None] = lambda _done, _total: None) -> int:
        """Load every topic that is replicated, so that links and progress run without a client; how many are loaded.

        A topic that cannot be loaded is left out: ``load_failures`` has the reason, and ``retry`` tries again.
        """
        resources = self._environment.resources
        namespaces = [each for tenant in resources.tenants.names() for each in resources.namespaces.of_tenant(tenant)]
        linked = [name for each in namespaces for name in self.names(each)]
        for done, name in enumerate(linked):
            progress(done, len(linked))
            self.load(name)
        return len(self._topics.loaded)

    def retry(self) -> None:
        """Try again to load the replicated topics that could not be loaded."""
        for name in self._topics.load_failures.reasons:
            self.load_again(name)

    def load_again(self, name: TopicName) -> None:
        """Load a topic that was unloaded, or could not be loaded, if it is replicated and still there."""
        if self._is_replicated(name.namespace_name) and self._topics.exists(name):
            self.load(name)

    def load(self, name: TopicName) -> None:
        """Load a replicated topic unless it is being unloaded; a failure concerns this topic only."""
        if self._topics.is_shut(name):
            return
        try:
            if not self._topics.must_wait(name):
                self._topics.get(name)
        except TopicLoadError:
            return  # logged where it was noted
        except MagnetarError as error:
            log.warning("linked_topic_not_loaded", topic=str(name), error=str(error))

    # -- what links bring ---------------------------------------------------------------------------------------

    def growth(self, name: TopicName) -> Awaitable[None] | None:
        """Return what creates a partition that a link brings and that was added elsewhere; None if it is here.

        Raises RequestError if a link may not have the topic.
        """
        self._topics.check_served(name)
        most, whole = self._environment.config.maxNumPartitionsPerPartitionedTopic, name.partitioned_topic
        if name.partition_index >= most:
            text, limit = f"{name}: a topic may have {most} partitions here", Limit.PARTITIONS
            raise RequestError(ServerError.NotAllowedError, f"{text} ({limit})", limit)
        self._check_not_deleted(name)
        known = self._topics.partitions_of(whole) if name.partition_index >= 0 else 0
        is_missing = self._topics.may_create(name) if known is None else 0 < known <= name.partition_index
        return self._grow(whole, name.partition_index + 1) if is_missing else None

    async def _grow(self, whole: TopicName, partitions: int) -> None:
        with _retried_by_links():
            await self._topics.partitioned.grow(whole, partitions)

    def get_or_create(self, name: TopicName) -> Topic:
        """The topic for a link, for which ``growth`` has nothing to do, loaded or created; raises RequestError.

        A topic that cannot be loaded is refused with PersistenceError, whatever is wrong: links retry by themselves.
        """
        with _retried_by_links():
            return self._topics.get_or_create(name, longer=True)

    def deleted(self, name: TopicName) -> None:
        """Note that a topic was deleted here: for DELETION_GRACE_S no link makes it again."""
        now = self._environment.clock.monotonic()
        self._deleted_at = {each: at for each, at in self._deleted_at.items() if now - at < DELETION_GRACE_S}
        self._deleted_at[name] = now

    def _check_not_deleted(self, name: TopicName) -> None:
        """Raise RequestError if a link has to wait, or the topic could not be deleted while another cluster has it."""
        deleted_at = self._deleted_at.get(name)
        if deleted_at is None or self._topics.exists(name):
            return
        left_s = deleted_at + DELETION_GRACE_S - self._environment.clock.monotonic()
        if left_s > 0:
            message = f"Topic {name} was deleted here: unless a client makes it again, a link may in {left_s:.0f} s"
            raise RequestError(ServerError.ServiceNotReady, message)


@contextmanager
def _retried_by_links() -> Iterator[None]:
    """Refuse a topic that cannot be loaded with PersistenceError."""
    try:
        yield
    except TopicLoadError as error:
        raise TopicLoadError(ServerError.PersistenceError, str(error)) from None
