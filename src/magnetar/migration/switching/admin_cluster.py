"""A cluster of a switch, through its admin API."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from magnetar.admin.cluster_metadata.reading import if_present
from magnetar.base.errors import AdminError, MigrationError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.migration.switching.cluster import FenceRefusedError, ProducerState
from magnetar.migration.switching.fence import Phase, TopicState, topic_state
from magnetar.migration.switching.topic_move import LEASE_S
from magnetar.wire.links import NOTHING_PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.admin.client import AdminClient
    from magnetar.migration.scope import Scope
    from magnetar.migration.sides import Side
    from magnetar.migration.switching.cluster import Cluster

ATTEMPTS: Final = 3
"""Attempts to change a route that somebody else changes at the same time."""


class AdminCluster:
    """See ``Cluster``. Used by several threads."""

    def __init__(self, side: Side, name: str, scope: Scope, known_namespaces: Sequence[str], migration: str) -> None:
        """Use a cluster that serves the namespaces of a migration."""
        self._side = side
        self._client: AdminClient = side.client
        self._name = name
        self._scope = scope
        self._known = frozenset(known_namespaces)
        self._migration = migration

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self._name

    # --- fences ------------------------------------------------------------------------------------------------------

    def fence(self, topic: str, epoch: int, phase: Phase) -> TopicState:
        """Set the fence of a topic."""
        lease_s = None if phase is Phase.FINAL else LEASE_S
        name = TopicName.parse(topic)
        set_fence = partial(self._client.fences.set, name, self._migration, epoch, phase.value, lease_s=lease_s)
        with self._side.answers():
            if phase is Phase.SETTLING and if_present(self._client.fences.get, name) is None:
                self._create(name)
            return topic_state(_unless_refused(topic, set_fence))

    def look(self, topic: str, *, digests: bool = False) -> TopicState:
        """Return the state of a topic."""
        with self._side.answers():
            found = if_present(self._client.fences.get, TopicName.parse(topic), digests=digests)
        return TopicState() if found is None else topic_state(found)

    def remove_fence(self, topic: str, epoch: int, *, final: bool = False) -> None:
        """Remove a fence."""
        remove = partial(self._client.fences.remove, TopicName.parse(topic), self._migration, epoch, is_decision=final)
        with self._side.answers():
            _unless_refused(topic, partial(if_present, remove))

    # --- topics ------------------------------------------------------------------------------------------------------

    def replicate(self, topic: str, subscription: str) -> None:
        """Replicate a subscription."""
        set_replicated = self._client.subscriptions.set_replicated
        with self._side.answers():
            if_present(set_replicated, TopicName.parse(topic), subscription, replicated=True)

    def set_former(self, topic: str, cluster: str) -> str:
        """Translate message ids of a cluster; without messages of it, there are none."""
        with self._side.answers():
            try:
                self._client.messages.set_former_cluster(TopicName.parse(topic), cluster)
            except AdminError as error:
                if error.status is not HTTPStatus.PRECONDITION_FAILED:
                    raise
                return "" if NOTHING_PUBLISHED in str(error) else str(error)
        return ""

    def producer_state(self, topic: str) -> ProducerState:
        """Return what the next producers of a topic continue."""
        with self._side.answers():
            found = if_present(self._client.messages.producer_state, TopicName.parse(topic)) or {}
        return ProducerState(found.get("topicEpoch"), found.get("sequenceIds", {}))

    def add_producer_state(self, topic: str, state: ProducerState) -> None:
        """Raise the epoch and sequence ids to those of the other cluster."""
        wanted = {"topicEpoch": state.topic_epoch, "sequenceIds": dict(state.sequence_ids)}
        add = partial(self._client.messages.add_producer_state, TopicName.parse(topic))
        with self._side.answers():
            try:
                if_present(add, wanted)
            except AdminError as error:
                if error.status is not HTTPStatus.PRECONDITION_FAILED:
                    raise
                if_present(add, {**wanted, "sequenceIds": {}})  # without deduplication

    def topics(self) -> Sequence[str]:
        """Return the topics and partitions of the migration."""
        found = set[str]()
        with self._side.answers():
            namespaces = {*self._scope.namespaces, *self._scope.namespaces_of_topics}
            for namespace in sorted(namespaces) or self._client.namespaces.of_tenant(self._scope.tenant):
                found.update(map(str, self._topics_of(namespace)))
        return sorted(found)

    def create_as_in(self, topic: str, other: Cluster) -> None:
        """Create a topic, or all partitions that the other cluster has."""
        name = TopicName.parse(topic)
        if name.partition_index < 0:
            with self._side.answers():
                self._create(name)
            return
        whole = name.partitioned_topic
        wanted = other.partitions_of(whole)
        with self._side.answers():
            known = self.partitions_of(whole)
            if not known:
                _unless_it_exists(partial(self._client.topics.create_partitioned, whole, wanted))
            elif known < wanted:
                self._client.topics.update_partitioned(whole, wanted)

    def partitions_of(self, topic: TopicName) -> int:
        """Return the number of partitions of a topic; 0: none, or it does not exist."""
        with self._side.answers():
            return if_present(self._client.topics.partitions, topic) or 0

    # --- routes ------------------------------------------------------------------------------------------------------

    def routes(self) -> dict[str, str]:
        """Return the cluster of each route."""
        with self._side.answers():
            return {each["scope"]: each["cluster"] for each in self._client.routes.all()}

    def set_route(self, scope: str, cluster: str) -> None:
        """Send clients of a scope to a cluster."""
        self._change_route(scope, cluster, lambda epoch: self._client.routes.set(scope, cluster, epoch=epoch))

    def delete_route(self, scope: str) -> None:
        """Delete a route."""
        self._change_route(scope, None, lambda epoch: self._client.routes.delete(scope, epoch=epoch))

    def _change_route(self, scope: str, cluster: str | None, change: Callable[[int], object]) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            with self._side.answers():
                known = if_present(self._client.routes.get_or_deleted, scope)
                if (None if known is None else known.get("cluster")) == cluster:
                    return
                try:
                    change(0 if known is None else known["epoch"])
                except AdminError as error:
                    # It was changed, or deleted, by somebody else, for example by the synchronizer of metadata.
                    if error.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND) or attempt == ATTEMPTS:
                        raise
                else:
                    return

    # --- parts -------------------------------------------------------------------------------------------------------

    def _topics_of(self, namespace: NamespaceName) -> list[TopicName]:
        client = self._client.topics
        moves = self._scope.includes
        found = [topic for topic in client.of_namespace(namespace) if topic.is_persistent and moves(topic)]
        for whole in filter(moves, client.partitioned_of_namespace(namespace)):
            found += map(whole.partition, range(client.partitions(whole)))
        if found and str(namespace) not in self._known and namespace not in self._scope.namespaces_of_topics:
            message = f"{namespace} has topics in {self.name}, and was created after the last magnetar migrate run\n"
            message += "hint: delete its topics; or magnetar migrate rollback, then run, verify and switch"
            raise MigrationError(message)
        return found

    def _create(self, topic: TopicName) -> None:
        _unless_it_exists(partial(self._client.topics.create, topic))


def _unless_refused(topic: str, request: Callable[[], Any]) -> Any:  # noqa: ANN401 - the answer of any request
    try:
        return request()
    except AdminError as error:
        if error.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            raise
        message = f"{topic}: {error}"
        raise FenceRefusedError(message) from error


def _unless_it_exists(create: Callable[[], None]) -> None:
    try:
        create()
    except AdminError as error:
        if error.status is not HTTPStatus.CONFLICT:
            raise
