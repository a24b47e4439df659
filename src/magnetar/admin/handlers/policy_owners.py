"""The namespaces and topics whose policies are read and set."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.exchange import namespace_name
from magnetar.admin.service import topic_not_found
from magnetar.base.errors import AdminError
from magnetar.metadata.policies import TopicPolicies
from magnetar.metasync.local.scope import naming
from magnetar.metasync.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

    from magnetar.admin.exchange import Context
    from magnetar.base.names import TopicName
    from magnetar.metadata.effective import EffectivePolicies
    from magnetar.metadata.policies import Policies


class PolicyOwners:
    """Access to the policies of the namespace or the topic in the path of a request."""

    def __init__(self, context: Context) -> None:
        """Access the policies in ``context``."""
        self._context = context

    @property
    def cluster(self) -> str:
        """Name of this cluster."""
        return self._context.service.cluster_name

    @property
    def message_size_max(self) -> int:
        """Maximum size of a message of the broker, in bytes."""
        return int(self._context.service.runtime_configuration()["maxMessageSize"])

    def namespace(self, request: Request) -> Policies:
        """Return the policies of the namespace; refuses with 404 if it does not exist."""
        return self._context.policies(namespace_name(request))

    def topic(self, request: Request) -> TopicName:
        """Return the topic; refuses with 404 if it does not exist. A partition has the policies of its topic."""
        topic = self._context.topic(request)
        if self._context.topics.partitions_of(topic) is None:
            raise topic_not_found(topic)
        return topic

    def to_change(self, request: Request) -> TopicName:
        """Return a topic whose policies are to be changed, like ``topic``; refuses a partition with 412."""
        topic = self.topic(request)
        if self._context.topics.partitions_of(topic.partitioned_topic) and topic.partition_index >= 0:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, "Not allowed to set/get topic policy for a partition")
        return topic

    def own(self, topic: TopicName) -> TopicPolicies:
        """Return the policies that the topic sets."""
        return self._context.resources.topic_policies.get(topic) or TopicPolicies()

    def of_namespace(self, topic: TopicName) -> Policies:
        """Return the policies of the topic's namespace."""
        return self._context.policies(topic.namespace_name)

    def applied(self, topic: TopicName) -> EffectivePolicies:
        """Return the policies in effect for the topic."""
        return self._context.service.topics.applied_policies(topic)

    async def set(self, request: Request, key: str | None = None, **fields: object) -> None:
        """Set policies of the namespace; None removes one. ``key`` is the changed one of fields with keys."""
        namespaces = self._context.resources.namespaces
        with naming(*_units(fields, key)):
            commit = namespaces.update(namespace_name(request), lambda policies: policies.model_copy(update=fields))
        await commit

    async def set_topic(self, topic: TopicName, key: str | None = None, **fields: object) -> None:
        """Set policies of the topic; None removes one. ``key`` is the changed one of a field with keys."""
        with naming(*_units(fields, key)):
            commit = self._context.resources.topic_policies.change(topic, **fields)
        await commit


def _units(fields: Iterable[str], key: str | None) -> list[str]:
    return [unit_of([field] if key is None else [field, key]) for field in fields]
