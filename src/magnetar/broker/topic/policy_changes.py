"""Application of changed policies, of namespaces and topics, to the loaded topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import MagnetarError, StorageError
from magnetar.base.tasks import report_bug
from magnetar.broker.loop.slices import SlicedWork

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.topic.linked_topics import LinkedTopics
    from magnetar.broker.topic.topic import Topic

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
    """Applies changes of policies: to few topics at once, to many in several turns of the event loop."""

    def __init__(self, topics: FollowingTopics) -> None:
        """Start watching the policies."""
        self._topics = topics
        self._environment = topics.environment
        self._following: SlicedWork[NamespaceName | TopicName, TopicName] = SlicedWork(
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
        loaded, linked = self._topics.loaded, dict.fromkeys(self._topics.linked.names(namespace))

        def follow(name: TopicName) -> None:
            topic = loaded.get(name)
            if topic is None and name in linked:
                self._topics.linked.load(name)
            elif topic is not None:
                self._apply(topic)
                if not is_served:  # acknowledgements here would no longer reach another cluster, so clients must move
                    self._topics.unload(name)

        tenant, local = (
            namespace.tenant,
            namespace.namespace,
        )  # names are compared in place, since there may be very many
        names = [name for name in loaded if name.namespace == local and name.tenant == tenant]
        self._following.start(namespace, dict.fromkeys((*names, *linked)), follow)

    def _topic_changed(self, changed: TopicName) -> None:
        begins = changed.local_name
        near = [name for name in self._topics.loaded if name.local_name.startswith(begins)]

        def follow(name: TopicName) -> None:
            topic = self._topics.loaded.get(name)
            if topic is not None:
                self._apply(topic)

        self._following.start(changed, [name for name in near if name.partitioned_topic == changed], follow)

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
