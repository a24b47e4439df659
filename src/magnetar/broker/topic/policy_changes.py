"""Application of changed policies, of namespaces and topics, to the loaded topics."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import MagnetarError, StorageError
from magnetar.base.tasks import report_bug
from magnetar.broker.loop.slices import SlicedWork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.linked_topics import LinkedTopics
    from magnetar.broker.topic.topic import Topic

SKIPPED_MAX = 200
"""Topics that a change does not concern and that are skipped in one step, some 30 us of work."""

log = structlog.get_logger(__name__)


class FollowingTopics(Protocol):
    """The topics that apply policies."""

    @property
    def environment(self) -> Environment:
        """Objects that all parts of the broker share."""
        ...

    @property
    def loaded(self) -> Mapping[TopicName, Topic]:
        """The loaded topics."""
        ...

    @property
    def linked(self) -> LinkedTopics:
        """The replicated topics."""
        ...

    def unload(self, name: TopicName) -> None:
        """Close a topic; clients look it up again."""
        ...


class PolicyChanges:
    """Applies changes of policies: to few topics at once, to many in several turns of the event loop.

    A topic that is loaded meanwhile has the new policies from its load. If the policies change again, the topics are
    looked at from the first one on.
    """

    def __init__(self, topics: FollowingTopics) -> None:
        """Start watching the policies."""
        self._topics = topics
        self._environment = topics.environment
        self._following: SlicedWork[NamespaceName | TopicName, TopicName | None] = SlicedWork(
            self._environment.loop, self._environment.clock
        )
        """Topics to which changed policies are not applied yet."""
        self._environment.resources.namespaces.watch(self._namespace_changed)
        self._environment.resources.topic_policies.watch(self._topic_changed)

    def stop(self) -> None:
        """Stop applying changes."""
        self._following.stop()

    def _namespace_changed(self, namespace: NamespaceName) -> None:
        try:
            policies = self._environment.resources.namespaces.get(namespace)
        except StorageError as error:
            log.exception("policies_not_applied", namespace=str(namespace), error=str(error))
            return
        is_served = policies is not None and self._environment.cluster in policies.replication_clusters
        is_linked = self._topics.linked.is_replicated(namespace)
        tenant, local = namespace.tenant, namespace.namespace

        def follow(name: TopicName) -> None:
            topic = self._topics.loaded.get(name)
            if topic is not None:
                self._apply(topic)
                if not is_served:  # acknowledgements here would no longer reach another cluster, so clients must move
                    self._topics.unload(name)
            elif is_linked:
                self._topics.linked.load(name)

        names: Iterator[TopicName | None] = (
            self._environment.resources.topics.of_namespace(namespace)
            if is_linked
            else self._loaded(lambda name: name.namespace == local and name.tenant == tenant)
        )
        self._follow(namespace, names, follow)

    def _topic_changed(self, changed: TopicName) -> None:
        begins = changed.local_name
        is_linked = self._topics.linked.is_linked(changed)

        def follow(name: TopicName) -> None:
            topic = self._topics.loaded.get(name)
            if topic is not None:
                self._apply(topic)
            elif is_linked:
                self._topics.linked.load(name)

        # Links may have brought partitions of a topic that is not registered as partitioned here.
        names = self._loaded(lambda name: name.local_name.startswith(begins) and name.partitioned_topic == changed)
        missing = (name for name in self._topics.linked.parts(changed) if name not in self._topics.loaded)
        self._follow(changed, chain(names, missing) if is_linked else names, follow)

    def _loaded(self, is_meant: Callable[[TopicName], bool]) -> Iterator[TopicName | None]:
        """Yield the topics that are loaded now and ``is_meant`` selects, and None every SKIPPED_MAX other topics."""
        for number, name in enumerate(tuple(self._topics.loaded)):
            if is_meant(name):
                yield name
            elif number % SKIPPED_MAX == 0:
                yield None

    def _follow(
        self,
        changed: NamespaceName | TopicName,
        names: Iterator[TopicName | None],
        follow: Callable[[TopicName], None],
    ) -> None:
        """Apply a change to topics in slices, and no longer an earlier change of the same policies."""
        self._following.start(changed, names, lambda name: None if name is None else follow(name))

    def _apply(self, topic: Topic) -> None:
        """Apply the policies to a topic; if that fails, the topic is fenced, and the others are not affected."""
        try:
            topic.apply_policies()
        except Exception as error:  # noqa: BLE001 - the root of one topic's work
            # The policies are stored, and must be applied to every other topic.
            log.warning("policies_not_applied", topic=str(topic.name), error=str(error))
            if not isinstance(error, MagnetarError):
                report_bug(self._environment.loop, f"policies of {topic.name} could not be applied", error)
            self._topics.unload(topic.name)
