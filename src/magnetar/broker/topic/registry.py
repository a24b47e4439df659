"""Which topics there are: found, loaded, created, deleted."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import (
    InvalidTopicNameError,
    MagnetarError,
    RequestError,
    ServerError,
    StorageError,
    TopicLoadError,
)
from magnetar.base.limits import Limit
from magnetar.base.names import NamespaceName, TopicName, is_longer, too_long
from magnetar.base.tasks import report_bug
from magnetar.broker.loop.slices import SlicedWork
from magnetar.broker.topic.damaged_topics import delete_damaged
from magnetar.broker.topic.loader import TopicLoader
from magnetar.broker.topic.partitioned_topics import PartitionedTopics
from magnetar.broker.topic.topic_lists import TopicLists
from magnetar.cursor.store import cursor_count

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator

    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.lifecycle import OnChange
    from magnetar.broker.topic.load_failures import LoadFailures
    from magnetar.broker.topic.topic import Topic
    from magnetar.metadata.policies import Policies

log = structlog.get_logger(__name__)

DELETION_GRACE_S = 60.0
"""Seconds for which no link makes a topic again that was deleted here: time to delete it in the other clusters too."""

LOADED_AT_ONCE_MAX = 100
"""Cursors of a topic that is loaded in one turn of the event loop. One with more is loaded in slices."""


def parse_topic(text: str) -> TopicName:
    """A topic's name from the wire; raises RequestError for a bad one, and for a kind that is not served."""
    name = TopicName.parse(text)
    if not name.is_persistent:
        raise RequestError(ServerError.NotAllowedError, f"non-persistent topics are not enabled on this broker: {name}")
    return name


@contextmanager
def _retried_by_links() -> Iterator[None]:
    """Refuse a topic that cannot be loaded with PersistenceError."""
    try:
        yield
    except TopicLoadError as error:
        raise TopicLoadError(ServerError.PersistenceError, str(error)) from None


class TopicRegistry:
    """The topics of this cluster; loaded when first asked for. Everything happens on the event loop's thread."""

    def __init__(self, environment: Environment, service_url: str) -> None:
        """Nothing is loaded yet."""
        self.environment = environment
        self.service_url = service_url
        self._loader = TopicLoader(environment, self._unloaded)
        self.partitioned = PartitionedTopics(self)
        self.lists = TopicLists(environment.resources.topics, environment.sliced)
        self._deleted_at: dict[TopicName, float] = {}
        """When topics were deleted, in monotonic seconds, as far as that still matters."""
        self._producer_numbers = itertools.count()
        self._consumer_numbers = itertools.count()
        # Names must be unique among live producers of all clusters and of all runs of this one.
        self._run = f"{environment.cluster}-{int(environment.clock.now() * 1000):x}"
        self._following: SlicedWork[NamespaceName | TopicName, TopicName] = SlicedWork(
            environment.loop, environment.clock
        )
        """Topics that are still to follow the policies of their namespace, or of their partitioned topic."""
        environment.resources.namespaces.watch(self._policies_changed)
        environment.resources.topic_policies.watch(self._topic_policies_changed)

    @property
    def loaded(self) -> dict[TopicName, Topic]:
        """The topics that are loaded and not on their way out."""
        return self._loader.loaded

    @property
    def load_failures(self) -> LoadFailures:
        """The topics that could not be loaded when they were last asked for."""
        return self._loader.failures

    def observe(
        self,
        *,
        closed: Callable[[Topic], None] | None = None,
        changed: OnChange | None = None,
    ) -> None:
        """Have ``closed`` told of each topic that is unloaded, and ``changed`` of what happens to any topic."""
        if closed is not None:
            self._loader.when_closed = closed
        if changed is not None:
            self._loader.when_changed = changed

    # -- names --------------------------------------------------------------------------------------------------

    def next_producer_name(self) -> str:
        """A name for a producer that has none, as Pulsar makes them: ``<cluster>-<n>-<m>``."""
        return f"{self._run}-{next(self._producer_numbers)}"

    def next_consumer_name(self) -> str:
        """A name for a consumer that has none."""
        return f"{self._run}-c{next(self._consumer_numbers)}"

    def names(self, namespace: NamespaceName) -> list[TopicName]:
        """The topics of ``namespace``, partitions as topics of their own, sorted."""
        return self.environment.resources.topics.of_namespace(namespace)

    # -- serving ------------------------------------------------------------------------------------------------

    def check_served(self, name: TopicName) -> Policies:
        """The policies of the topic's namespace; raises RequestError if this cluster does not serve it."""
        policies = self.environment.resources.namespaces.get(name.namespace_name)
        if policies is None:
            raise RequestError(ServerError.TopicNotFound, f"Namespace not found: {name.namespace_name}")
        if self.environment.cluster not in policies.replication_clusters:
            message = (
                f"Namespace missing local cluster name in clusters list: local_cluster={self.environment.cluster} "
                f"ns={name.namespace_name} clusters={policies.replication_clusters}"
            )
            raise RequestError(ServerError.MetadataError, message)
        return policies

    def check_length(self, name: TopicName) -> None:
        """Raise InvalidTopicNameError for a name of more than ``maxNameLength`` bytes, unless there is such a topic.

        The limit does not hold for links: a topic that exists in another cluster is replicated.
        """
        length_max, whole = self.environment.config.maxNameLength, name.partitioned_topic
        if is_longer(str(whole), length_max) and not self.exists(name) and self.partitions_of(whole) is None:
            raise InvalidTopicNameError(too_long("topic", str(name), length_max), Limit.NAME_LENGTH)

    def exists(self, name: TopicName) -> bool:
        """Whether there is such a topic (not: a partitioned one)."""
        return name in self.loaded or self.environment.resources.topics.exists(name)

    def partitions_of(self, name: TopicName) -> int | None:
        """Number of partitions, 0 for a topic without; None when there is no such topic."""
        partitioned = self.environment.resources.partitioned_topics.get(name)
        if partitioned is not None:
            return partitioned.partitions
        return 0 if self.exists(name) else None

    def partitions_for_client(self, name: TopicName, *, create: bool) -> int:
        """The same for a client, which may create what is missing; raises RequestError with TopicNotFound."""
        self.check_served(name)
        self.check_length(name)
        if name.partition_index >= 0:
            return 0
        self.partitioned.check_open(name)
        partitions = self.partitions_of(name)
        if partitions is not None:
            return partitions
        config = self.environment.config
        if not create or not config.allowAutoTopicCreation:
            raise RequestError(ServerError.TopicNotFound, f"Topic {name} does not exist")
        if config.allowAutoTopicCreationType == "non-partitioned":
            return 0
        self.partitioned.create_for_client(name, config.defaultNumPartitions)
        return config.defaultNumPartitions

    def get_or_create(self, name: TopicName) -> Topic:
        """The topic, loaded or created; raises RequestError if it is missing and may not be created."""
        self.check_open(name)
        if name not in self.loaded:
            self.check_length(name)
        return self._get_or_create(name)

    def _get_or_create(self, name: TopicName) -> Topic:
        topic = self.loaded.get(name)
        if topic is not None:
            return topic
        self.check_served(name)
        if not self.exists(name) and not self._may_create(name):
            raise RequestError(ServerError.TopicNotFound, f"Topic {name} does not exist")
        return self._loader.load(name)

    def growth_for_link(self, name: TopicName) -> Awaitable[None] | None:
        """Return what creates a partition that a link brings and that was added elsewhere; None if it is here.

        Raises RequestError if a link may not have the topic.
        """
        self.check_served(name)
        most, whole = self.environment.config.maxNumPartitionsPerPartitionedTopic, name.partitioned_topic
        if name.partition_index >= most:
            text, limit = f"{name}: a topic may have {most} partitions here", Limit.PARTITIONS
            raise RequestError(ServerError.NotAllowedError, f"{text} ({limit})", limit)
        self._check_not_deleted(name)
        known = self.partitions_of(whole) if name.partition_index >= 0 else 0
        is_missing = self._may_create(name) if known is None else 0 < known <= name.partition_index
        return self._grow_for_link(whole, name.partition_index + 1) if is_missing else None

    async def _grow_for_link(self, whole: TopicName, partitions: int) -> None:
        with _retried_by_links():
            await self.partitioned.grow(whole, partitions)

    def get_or_create_linked(self, name: TopicName) -> Topic:
        """As ``get_or_create`` for a link, for which ``growth_for_link`` has nothing to do.

        A topic that cannot be loaded is refused with PersistenceError, whatever is wrong: links retry by themselves.
        """
        self.check_open(name)
        with _retried_by_links():
            return self._get_or_create(name)

    def get(self, name: TopicName) -> Topic:
        """The topic if it exists; raises RequestError with TopicNotFound, or if it is about to be deleted."""
        self.check_open(name)
        return self.find(name)

    def find(self, name: TopicName) -> Topic:
        """As ``get``, also for a partition of a topic that is about to be deleted."""
        topic = self.loaded.get(name)
        if topic is not None:
            return topic
        self.check_served(name)
        if not self.exists(name):
            raise RequestError(ServerError.TopicNotFound, f"Topic {name} not found")
        return self._loader.load(name)

    def check_open(self, name: TopicName) -> None:
        """Raise RequestError with ServiceNotReady for a partition of a topic that is being deleted."""
        if name.partition_index >= 0:
            self.partitioned.check_open(name)

    def load_linked(self, progress: Callable[[int, int], None] = lambda _done, _total: None) -> int:
        """Load every topic that is replicated, so that links and progress run without a client; how many.

        A topic that cannot be loaded is left out: ``load_failures`` has the reason, and ``retry_linked`` tries again.
        """
        resources = self.environment.resources
        namespaces = [each for tenant in resources.tenants.names() for each in resources.namespaces.of_tenant(tenant)]
        linked = [name for each in namespaces for name in self._linked_names(each)]
        for done, name in enumerate(linked):
            progress(done, len(linked))
            self._load_linked(name)
        return len(self.loaded)

    def retry_linked(self) -> None:
        """Try again to load the replicated topics that could not be loaded."""
        for name in self.load_failures.reasons:
            if self._is_linked(name.namespace_name) and self.exists(name):
                self._load_linked(name)

    def _linked_names(self, namespace: NamespaceName) -> list[TopicName]:
        """Return the topics of ``namespace`` if it is replicated, else none."""
        return self.names(namespace) if self._is_linked(namespace) else []

    def _is_linked(self, namespace: NamespaceName) -> bool:
        """Whether a namespace is replicated from here; policies that cannot be read concern this namespace only."""
        try:
            return bool(self.environment.targets_of(namespace))
        except StorageError as error:
            log.exception("namespace_not_loaded", namespace=str(namespace), error=str(error))
            return False

    def _load_linked(self, name: TopicName) -> None:
        """Load a replicated topic unless it is being unloaded; a failure concerns this topic only."""
        if self._loader.is_shut(name):
            return
        try:
            if not self.must_wait(name):
                self.get(name)
        except TopicLoadError:
            return  # logged where it was noted
        except MagnetarError as error:
            log.warning("linked_topic_not_loaded", topic=str(name), error=str(error))

    # -- creating and deleting ------------------------------------------------------------------------------------

    def create(self, name: TopicName) -> Topic:
        """Create a topic that must not exist."""
        self.check_open(name)
        return self._loader.load(name)

    def unload(self, name: TopicName) -> None:
        """Close a topic once everything in it is durable (see ``TopicLoader.unload``)."""
        self._loader.unload(name)

    async def unloaded(self, name: TopicName) -> None:
        """Return when a topic that nobody is let into may be had; at once for any other."""
        await self._loader.opened(name)

    def is_shut(self, name: TopicName) -> bool:
        """Whether nobody is let into the topic before ``unloaded`` returns."""
        return self._loader.is_shut(name)

    def must_wait(self, name: TopicName) -> bool:
        """Whether nobody is let into the topic before ``ready`` returns. Many subscriptions begin to be loaded by that.

        Raises RequestError if such a topic cannot be loaded.
        """
        if not self._loader.is_shut(name):
            if name in self.loaded or cursor_count(self.environment.metadata, name) <= LOADED_AT_ONCE_MAX:
                return False
            self.check_served(name)
            self._loader.load_in_slices(name, lambda: self._unload_unless_served(name))
        return self._loader.is_shut(name)

    def _unload_unless_served(self, name: TopicName) -> None:
        try:
            self.check_served(name)
        except RequestError:  # the policies of its namespace changed while it was loaded
            self.unload(name)

    async def ready(self, name: TopicName) -> None:
        """Return when the topic can be had, if there is one; raises RequestError as ``must_wait``."""
        while self.must_wait(name):
            await self.unloaded(name)

    def _unloaded(self, name: TopicName) -> None:
        """Load a topic again that links and progress need also when no client asks for it."""
        if self._is_linked(name.namespace_name) and self.exists(name):
            self._load_linked(name)

    def deletion(self, name: TopicName) -> Generator[None, None, None]:
        """Delete a topic with everything in it, also one that cannot be loaded, in steps: see ``TopicLoader.deletion``.

        Raises StorageError, RequestError.
        """
        try:
            topic = self.find(name)
        except TopicLoadError:
            delete_damaged(self.environment, name)
        else:
            yield from self._loader.deletion(topic)
        self.load_failures.forget(name)
        now = self.environment.clock.monotonic()
        self._deleted_at = {each: at for each, at in self._deleted_at.items() if now - at < DELETION_GRACE_S}
        self._deleted_at[name] = now

    def close(self) -> None:
        """Close every topic; none is loaded from now on."""
        self._following.stop()
        self._loader.close()

    def _check_not_deleted(self, name: TopicName) -> None:
        """Raise RequestError if a link has to wait, or the topic could not be deleted while another cluster has it."""
        deleted_at = self._deleted_at.get(name)
        if deleted_at is None or self.exists(name):
            return
        left_s = deleted_at + DELETION_GRACE_S - self.environment.clock.monotonic()
        if left_s > 0:
            message = f"Topic {name} was deleted here: unless a client makes it again, a link may in {left_s:.0f} s"
            raise RequestError(ServerError.ServiceNotReady, message)

    def _may_create(self, name: TopicName) -> bool:
        if name.partition_index >= 0 and self.environment.resources.partitioned_topics.exists(name.partitioned_topic):
            return True
        return self.environment.config.allowAutoTopicCreation

    def _policies_changed(self, namespace: NamespaceName) -> None:
        """Let the topics of a namespace follow its policies: few at once, many in several turns of the event loop."""
        try:
            policies = self.environment.resources.namespaces.get(namespace)
        except StorageError as error:
            log.exception("policies_not_applied", namespace=str(namespace), error=str(error))
            return
        is_served = policies is not None and self.environment.cluster in policies.replication_clusters
        linked = dict.fromkeys(self._linked_names(namespace))

        def follow(name: TopicName) -> None:
            topic = self.loaded.get(name)
            if topic is None and name in linked:
                self._load_linked(name)
            elif topic is not None:
                self._apply_policies(topic)
                if not is_served:  # what is acknowledged here would reach nobody any more: clients have to move
                    self.unload(name)

        tenant, local = namespace.tenant, namespace.namespace  # names are compared in place: there may be very many
        names = [name for name in self.loaded if name.namespace == local and name.tenant == tenant]
        self._following.start(namespace, dict.fromkeys((*names, *linked)), follow)

    def _topic_policies_changed(self, changed: TopicName) -> None:
        begins = changed.local_name
        near = [name for name in self.loaded if name.local_name.startswith(begins)]

        def follow(name: TopicName) -> None:
            topic = self.loaded.get(name)
            if topic is not None:
                self._apply_policies(topic)

        self._following.start(changed, [name for name in near if name.partitioned_topic == changed], follow)

    def _apply_policies(self, topic: Topic) -> None:
        """Have a topic follow its policies; one that cannot starts over from its log, and the others follow theirs."""
        try:
            topic.apply_policies()
        except Exception as error:  # noqa: BLE001 - the root of one topic's work
            # The policies are stored, and every other topic has to follow them.
            log.warning("policies_not_applied", topic=str(topic.name), error=str(error))
            if not isinstance(error, MagnetarError):
                report_bug(self.environment.loop, f"policies of {topic.name} could not be applied", error)
            self.unload(topic.name)
