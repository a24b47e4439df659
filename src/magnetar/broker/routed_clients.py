"""Sends connected clients to the cluster that serves them after a change of routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import structlog

from magnetar.broker.loop.closing import close_one
from magnetar.metadata.routes.scope import includes
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from magnetar.base.names import TopicName
    from magnetar.broker.domains import Domains
    from magnetar.broker.environment import Environment
    from magnetar.broker.non_persistent.subscription import NonPersistentSubscription
    from magnetar.broker.non_persistent.topic import NonPersistentTopic
    from magnetar.broker.session.session import Session
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.topic import Topic
    from magnetar.metadata.policies import ClusterData

log = structlog.get_logger(__name__)

MIGRATION_SINCE_VERSION: Final = 20
"""The first protocol version with TOPIC_MIGRATED."""

_SKIPPED_MAX: Final = 200
"""Topics that a change does not concern and that are skipped in one step."""


class RoutedClients:
    """Lets the clients of a topic go when its route leads to another cluster. Used on the event loop's thread.

    Clients that know TOPIC_MIGRATED get the address of the cluster, all others look the topic up again. Producers have
    the receipts of what they published. Links, progress and tools of Magnetar stay, apart from a short interruption of
    links that publish to a topic with producers.
    """

    def __init__(self, environment: Environment, domains: Domains) -> None:
        """Let clients of ``domains`` go from now on."""
        self._environment = environment
        self._domains = domains
        domains.routing.followed.observe(self._changed)

    def _changed(self, scope: str) -> None:
        self._environment.sliced.start(("route", scope), self._included(scope), self._let_go)

    def _included(self, scope: str) -> Iterator[TopicName | None]:
        """Yield the loaded topics in a scope, and None every _SKIPPED_MAX other topics."""
        loaded = (*self._domains.persistent.loaded, *self._domains.non_persistent.loaded)
        for number, name in enumerate(loaded):
            if includes(scope, name):
                yield name
            elif number % _SKIPPED_MAX == 0:
                yield None

    def _let_go(self, name: TopicName | None) -> None:
        cluster = None if name is None else self._domains.routing.elsewhere(name)
        if name is None or cluster is None:
            return
        # The address of a cluster depends on the listener of a client, which its lookup names.
        has_listeners = bool(self._domains.persistent.addresses.listeners)
        addresses = None if has_listeners else self._domains.routing.addresses(cluster)
        topic, other = self._domains.persistent.loaded.get(name), self._domains.non_persistent.loaded.get(name)
        if topic is not None:
            close_one(self._environment.loop, name, "clients", lambda: _let_go(topic, cluster, addresses))
        elif other is not None and _tell(_producers(other), _consumers(other), addresses):
            self._domains.non_persistent.close(name)


def _let_go(topic: Topic, cluster: str, addresses: ClusterData | None) -> None:
    topic.log.migration_fence.send_away()
    producers = _producers(topic)
    if _tell(producers, _consumers(topic), addresses):
        log.info("clients_sent_away", topic=str(topic.name), to=cluster)
    if producers:
        topic.producers.dismiss(also_waiting=True)
    for subscription in tuple(topic.subscriptions.values()):
        if any(not _is_exempt(each.session) for each in subscription.consumers):
            subscription.disconnect_consumers()


def _producers(topic: Topic | NonPersistentTopic) -> list[tuple[Session, int]]:
    """Return the sessions and numbers of the producers of clients, those that wait for access as well."""
    present = (*topic.producers.access.waiting, *topic.producers.clients())
    return [
        (cast("Session", each.session), each.options.producer_id) for each in present if not _is_exempt(each.session)
    ]


def _consumers(topic: Topic | NonPersistentTopic) -> list[tuple[Session, int]]:
    subscriptions: Iterable[Subscription | NonPersistentSubscription] = tuple(topic.subscriptions.values())
    present = [each for subscription in subscriptions for each in subscription.consumers]
    return [(cast("Session", each.session), each.consumer_id) for each in present if not _is_exempt(each.session)]


def _tell(
    producers: Iterable[tuple[Session, int]], consumers: Iterable[tuple[Session, int]], addresses: ClusterData | None
) -> bool:
    """Send TOPIC_MIGRATED with ``addresses``, if given, to clients that know it; return whether there are clients."""
    kinds = pb.CommandTopicMigrated
    found = [(*each, kinds.Producer) for each in producers] + [(*each, kinds.Consumer) for each in consumers]
    for session, number, kind in found:
        if addresses is not None and session.connection.peer_protocol_version >= MIGRATION_SINCE_VERSION:
            body = pb.CommandTopicMigrated(
                resource_id=number,
                resource_type=kind,
                brokerServiceUrl=addresses.brokerServiceUrl,
                brokerServiceUrlTls=addresses.brokerServiceUrlTls,
            )
            session.write(commands.encode(body))
    return bool(found)


def _is_exempt(session: object) -> bool:
    """Return whether a session is a link's or a tool's of Magnetar, which choose the cluster themselves."""
    return cast("Session", session).connection.peer_is_magnetar
