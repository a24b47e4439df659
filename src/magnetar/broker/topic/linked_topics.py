"""Replicated topics: they are loaded without clients, and links create them."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

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

Owner = TypeVar("Owner", "NamespaceName", "TopicName")

DELETION_GRACE_S = 60.0
"""Seconds after a deletion in which no link creates the topic again, so that it can be deleted in all clusters."""

FORGOTTEN_AT_ONCE_MAX = 100
"""Maximum number of old deletions that a new one removes: a namespace may have 100,000 topics."""

LOADED_TOGETHER = 100
"""Number of topics that are loaded at the same time when the broker starts."""


class AllTopics(Protocol):
    """All topics of this cluster."""

    @property
    def environment(self) -> Environment:
        """Objects that all parts of the broker share."""
        ...

    @property
    def loaded(self) -> Mapping[TopicName, Topic]:
        """The loaded topics."""
        ...

    @property
    def load_failures(self) -> LoadFailures:
        """The topics whose last load failed."""
        ...

    @property
    def partitioned(self) -> PartitionedTopics:
        """The partitioned topics."""
        ...

    def exists(self, name: TopicName) -> bool:
        """Return whether a topic exists, loaded or not."""
        ...

    def partitions_of(self, name: TopicName) -> int | None:
        """Return the number of partitions, 0 for a topic that is not partitioned; None if neither exists."""
        ...

    def may_create(self, name: TopicName) -> bool:
        """Return whether a missing topic may be created automatically."""
        ...

    def check_served(self, name: TopicName) -> Policies:
        """Return the policies of the topic's namespace; raises RequestError if this cluster does not serve it."""
        ...

    def get(self, name: TopicName) -> Topic:
        """Return the topic; raises RequestError if it does not exist."""
        ...

    def get_or_create(self, name: TopicName, *, longer: bool) -> Topic:
        """Return the topic, load or create it; raises RequestError."""
        ...

    def is_shut(self, name: TopicName) -> bool:
        """Return whether no client may attach to the topic."""
        ...

    async def unloaded(self, name: TopicName) -> None:
        """Return when clients may attach to the topic; at once if they may now."""
        ...

    async def ready(self, name: TopicName) -> None:
        """Return when clients may attach to the topic, if it exists; raises RequestError like ``must_wait``."""
        ...

    def must_wait(self, name: TopicName) -> bool:
        """Return whether no client may attach to the topic now. Raises RequestError if it cannot be loaded."""
        ...


class LinkedTopics:
    """The replicated topics of this cluster. Everything happens on the event loop's thread."""

    def __init__(self, topics: AllTopics) -> None:
        """Create the set of replicated topics; no topic was deleted."""
        self._topics = topics
        self._environment = topics.environment
        self._deleted_at: dict[TopicName, float] = {}
        """Times of recent deletions, in monotonic seconds, the oldest first."""

    def is_replicated(self, namespace: NamespaceName) -> bool:
        """Return whether a namespace is replicated from here; unreadable policies affect only this namespace."""
        return self._has_targets(namespace, self._environment.targets_of, namespace)

    def is_linked(self, name: TopicName) -> bool:
        """Return whether a topic is replicated from here, by its own policy or by that of its namespace."""
        return self._has_targets(name.namespace_name, self._environment.targets_of_topic, name)

    def names(self, namespace: NamespaceName) -> Iterator[TopicName]:
        """Yield the topics of a namespace that exist and are replicated from here."""
        resources = self._environment.resources
        if self.is_replicated(namespace):
            yield from resources.topics.of_namespace(namespace)
            return
        for name in resources.topic_policies.of_namespace(namespace):
            if self.is_linked(name):
                yield from self.parts(name)

    def parts(self, name: TopicName) -> Iterator[TopicName]:
        """Yield a topic without partitions, or the partitions of a topic, that exist."""
        parts = range(self._topics.partitions_of(name) or 0)
        yield from filter(self._topics.exists, map(name.partition, parts) if parts else [name])

    def _has_targets(self, namespace: NamespaceName, targets_of: Callable[[Owner], list[str]], owner: Owner) -> bool:
        """Return whether there are other clusters; none if the policies are unreadable."""
        try:
            return bool(targets_of(owner))
        except StorageError as error:
            log.exception("namespace_not_loaded", namespace=str(namespace), error=str(error))
            return False

    # -- loading ------------------------------------------------------------------------------------------------

    async def load_all(self, progress: Callable[[int, int], None] = lambda _done, _total: None) -> int:
        """Load all replicated topics, so that links and progress work without clients; return their number.

        A topic that cannot be loaded is omitted: ``load_failures`` has the reason, and ``retry`` tries again.
        """
        resources = self._environment.resources
        namespaces = [each for tenant in resources.tenants.names() for each in resources.namespaces.of_tenant(tenant)]
        linked = [name for each in namespaces for name in self.names(each)]
        for done in range(0, len(linked), LOADED_TOGETHER):
            progress(done, len(linked))
            some = linked[done : done + LOADED_TOGETHER]
            for name in some:
                self.load(name)
            for name in some:
                await self._topics.unloaded(name)
        return len(self._topics.loaded)

    def retry(self) -> None:
        """Try again to load the replicated topics that could not be loaded."""
        for name in self._topics.load_failures.reasons:
            self.load_again(name)

    def load_again(self, name: TopicName) -> None:
        """Load a topic that was unloaded, or could not be loaded, if it is replicated and still exists."""
        if self.is_linked(name) and self._topics.exists(name):
            self.load(name)

    def load(self, name: TopicName) -> None:
        """Load a replicated topic unless it is being unloaded; a failure affects only this topic."""
        if self._topics.is_shut(name):
            return
        try:
            if not self._topics.must_wait(name):
                self._topics.get(name)
        except TopicLoadError:
            return  # logged where it was noted
        except MagnetarError as error:
            log.warning("linked_topic_not_loaded", topic=str(name), error=str(error))

    # -- creation by links --------------------------------------------------------------------------------------

    def absence(self, name: TopicName) -> Awaitable[None] | None:
        """Return what a link awaits before it can use a topic; None if there is nothing to await.

        A topic that cannot be loaded is refused with PersistenceError for any reason, because links retry. Raises
        RequestError.
        """
        with _retried_by_links():
            if self._topics.must_wait(name):
                return self._ready(name)
        return self._growth(name)

    async def _ready(self, name: TopicName) -> None:
        with _retried_by_links():
            await self._topics.ready(name)

    def _growth(self, name: TopicName) -> Awaitable[None] | None:
        """Return the steps that create a partition that was added in another cluster; None if it exists here.

        Raises RequestError if the link may not use the topic.
        """
        self._topics.check_served(name)
        most, whole = self._environment.config.partitions_max, name.partitioned_topic
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
        """Return the topic of a link, load or create it; call ``absence`` before, and await it. Raises RequestError.

        Errors are those of ``absence``.
        """
        with _retried_by_links():
            return self._topics.get_or_create(name, longer=True)

    def deleted(self, name: TopicName) -> None:
        """Note the deletion of a topic: for DELETION_GRACE_S no link creates it again. Links to it learn that."""
        self._environment.losses.note(name)
        now, deleted_at = self._environment.clock.monotonic(), self._deleted_at
        deleted_at.pop(name, None)
        deleted_at[name] = now
        for oldest in tuple(islice(deleted_at, FORGOTTEN_AT_ONCE_MAX)):
            if now - deleted_at[oldest] < DELETION_GRACE_S:
                break
            del deleted_at[oldest]

    def _check_not_deleted(self, name: TopicName) -> None:
        """Raise RequestError while links may not create the topic, so that it can be deleted in all clusters."""
        deleted_at = self._deleted_at.get(name)
        if deleted_at is None or self._topics.exists(name):
            return
        left_s = deleted_at + DELETION_GRACE_S - self._environment.clock.monotonic()
        if left_s > 0:
            message = f"Topic {name} was deleted here: a link may create it again in {left_s:.0f} s, a client at once"
            raise RequestError(ServerError.ServiceNotReady, message)


@contextmanager
def _retried_by_links() -> Iterator[None]:
    """Refuse a topic that cannot be loaded with PersistenceError."""
    try:
        yield
    except TopicLoadError as error:
        raise TopicLoadError(ServerError.PersistenceError, str(error)) from None
