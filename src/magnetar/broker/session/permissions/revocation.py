"""Revoked permissions: open producers and consumers whose role has lost its permission are closed at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.authorization.internal_names import cluster_of
from magnetar.authorization.needs import Resource, on_topic
from magnetar.broker.dispatch.consumer import Consumer
from magnetar.broker.loop.slices import SlicedWork
from magnetar.broker.session.consumers import subscription_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from magnetar.authorization.access import Access
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.publish.interfaces import Producer
    from magnetar.broker.session.session import Session

log = structlog.get_logger(__name__)

_PRODUCE, _CONSUME = on_topic("PRODUCE"), on_topic("CONSUME")


class Revocation:
    """Watches permissions of namespaces and admins of tenants.

    Roles of producers and consumers with internal names are settings, which do not change.
    """

    def __init__(self, environment: Environment, access: Access, sessions: Callable[[], Iterable[Session]]) -> None:
        """Check the present ``sessions`` after each change."""
        self._access = access
        self._sessions = sessions
        self._checking: SlicedWork[object, tuple[Session, Producer | Consumer]] = SlicedWork(
            environment.loop, environment.clock
        )
        resources = environment.resources
        self._ends = (
            resources.namespaces.watch(self._namespace_changed),
            resources.tenants.watch(self._tenant_changed),
        )

    def stop(self) -> None:
        """End the watches."""
        for end in self._ends:
            end()
        self._checking.stop()

    def _namespace_changed(self, namespace: NamespaceName) -> None:
        self._check(namespace, lambda topic: topic.namespace_name == namespace)

    def _tenant_changed(self, tenant: str) -> None:
        self._check(tenant, lambda topic: topic.tenant == tenant)

    def _check(self, changed: object, concerns: Callable[[TopicName], bool]) -> None:
        """Check all producers and consumers, in slices. A later change of the same object starts again."""
        self._checking.start(changed, self._members(), lambda member: self._check_one(*member, concerns))

    def _members(self) -> Iterator[tuple[Session, Producer | Consumer]]:
        """Yield what is open now; what is opened later has the new permissions."""
        for session in tuple(self._sessions()):
            producers, consumers = (*session.producers.values(), *session.waiting.values()), session.consumers
            for producer in producers:
                yield session, producer
            for consumer in tuple(consumers.values()):
                yield session, consumer

    def _check_one(self, session: Session, member: Producer | Consumer, concerns: Callable[[TopicName], bool]) -> None:
        if isinstance(member, Consumer):
            self._check_consumer(session, member, concerns)
            return
        number, name, topic = member.options.producer_id, member.options.name, member.topic.name
        is_open = member in (session.producers.get(number), session.waiting.get(number))
        if is_open and concerns(topic) and cluster_of(name) is None and self._is_refused(session, topic):
            log.warning("producer_closed", reason="permission revoked", topic=str(topic), producer=name)
            session.close_producer(member)

    def _check_consumer(self, session: Session, consumer: Consumer, concerns: Callable[[TopicName], bool]) -> None:
        subscription = subscription_of(consumer)
        if subscription is None or session.consumers.get(consumer.consumer_id) is not consumer:
            return  # a link, or closed meanwhile
        name, topic = subscription.name, subscription.topic.name
        if concerns(topic) and cluster_of(name) is None and self._is_refused(session, topic, name):
            log.warning("consumer_closed", reason="permission revoked", topic=str(topic), subscription=name)
            session.close_consumer(consumer)

    def _is_refused(self, session: Session, topic: TopicName, subscription: str | None = None) -> bool:
        need = _PRODUCE if subscription is None else _CONSUME
        resource = Resource.of_topic(topic, subscription or "")
        return self._access.refusal(need, resource, session.principal, session.address) is not None
