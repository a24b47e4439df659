"""Policies of namespaces and topics: one table, with the same verbs for all policies at both levels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter

from magnetar.admin.exchange import AdminRoute, Context, body, flag, number, route
from magnetar.admin.handlers.last_edits import with_last_edit
from magnetar.admin.handlers.policy_checks import check_value
from magnetar.admin.handlers.policy_owners import PolicyOwners
from magnetar.base.errors import AdminError
from magnetar.base.names import NON_PERSISTENT, PERSISTENT
from magnetar.metadata.policies import TopicPolicies
from magnetar.metadata.policy.document import Document
from magnetar.metadata.policy.table import OFFLOAD_FIELDS, Policy
from magnetar.metadata.policy.values import OffloadPolicies
from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from starlette.requests import Request

    from magnetar.admin.openapi.description import Description
    from magnetar.base.names import TopicName
    from magnetar.metadata.policies import Policies
    from magnetar.metadata.policy.description import Level

Read = Callable[["Request"], Awaitable[Any]]
"""Reads the new value of a policy from a request."""

Method = Callable[["Request"], Any]


class Methods(NamedTuple):
    """Handlers of a policy at one level."""

    get: Method
    write: Method
    remove: Method
    kind: TypeAdapter[Any]
    """Type of the body of ``write``."""


_FLAG: TypeAdapter[bool] = TypeAdapter(bool)


async def _message_ttl_of_topic(request: Request) -> int | None:
    return number(request, "messageTTL")


async def _without_body(_: Request) -> bool:
    return True  # POST enables the policy, DELETE disables it


_READERS: Mapping[tuple[Policy, bool], Read] = {
    (Policy.MESSAGE_TTL, True): _message_ttl_of_topic,
    (Policy.PAUSE_ON_ACK_STATE, False): _without_body,
    (Policy.PAUSE_ON_ACK_STATE, True): _without_body,
}
"""Readers of policies whose value is not the body, by policy and whether a topic sets it."""

ACTED_ON = frozenset(
    {"backlog_quota_map", "is_allow_auto_update_schema"}
    | {policy.namespace.field for policy in Policy if policy.namespace is not None}
)
"""Fields of Policies that have routes."""


OF_NON_PERSISTENT = frozenset(
    {
        Policy.INACTIVE_TOPICS,
        Policy.MAX_CONSUMERS,
        Policy.MAX_CONSUMERS_PER_SUBSCRIPTION,
        Policy.MAX_MESSAGE_SIZE,
        Policy.MAX_PRODUCERS,
        Policy.MAX_SUBSCRIPTIONS,
        Policy.PUBLISH_RATE,
        Policy.SCHEMA_COMPATIBILITY_STRATEGY,
        Policy.SCHEMA_VALIDATION_ENFORCED,
        Policy.SUBSCRIBE_RATE,
        Policy.SUBSCRIPTION_TYPES_ENABLED,
    }
)
"""Policies that have an effect on non-persistent topics; the others concern stored messages."""


_TOPIC = "/admin/v2/{domain}/{{tenant}}/{{namespace}}/{{topic}}"


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for policies."""
    handlers = _Handlers(context)
    by_domain = ((PERSISTENT, handlers), (NON_PERSISTENT, _Handlers(replace(context, domain=NON_PERSISTENT))))
    namespace = "/admin/v2/namespaces/{tenant}/{namespace}"
    found = [
        route("GET", f"{namespace}/isAllowAutoUpdateSchema", handlers.auto_updates_schemas, gives=bool),
        route("POST", f"{namespace}/isAllowAutoUpdateSchema", handlers.set_auto_update_of_schemas, takes=_FLAG),
    ]
    for policy in Policy:
        if policy.namespace is not None:
            methods = handlers.of_namespace(policy, policy.namespace)
            found += _routes(namespace, policy, policy.namespace, methods, {})
        for domain, of_topics in by_domain:
            if policy.topic is not None and (domain == PERSISTENT or policy in OF_NON_PERSISTENT):
                methods = of_topics.of_topic(policy, policy.topic)
                scoped: Description = {"query": ["isGlobal"], "refuses": [501]}
                found += _routes(_TOPIC.format(domain=domain), policy, policy.topic, methods, scoped)
    for domain, of_topics in by_domain:
        found.append(
            route("GET", f"{_TOPIC.format(domain=domain)}/policies", of_topics.all_of_topic, gives=TopicPolicies)
        )
    return found


def _routes(owner: str, policy: Policy, level: Level, methods: Methods, scoped: Description) -> list[AdminRoute]:
    """Return the routes of a policy at one level."""
    is_topic, kind = level is policy.topic, policy.value.kind
    removed: Description = {**scoped, "is_without_effect": not policy.value.has_effect}
    written: Description = {**removed}
    if policy is Policy.MESSAGE_TTL and is_topic:
        written["query"] = ["isGlobal", "messageTTL"]
    elif (policy, is_topic) not in _READERS:
        written["takes"] = methods.kind
    read: Description = {"gives": kind | None if level.unset is None else kind}
    if is_topic:
        read["query"] = ["applied", "isGlobal"]
    return [
        route("GET", f"{owner}/{level.path}", methods.get, **read),
        route(level.method, f"{owner}/{level.path}", methods.write, **written),
        route("DELETE", f"{owner}/{level.removal or level.path}", methods.remove, **removed),
    ]


class _Handlers:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._owners = PolicyOwners(context)

    def of_namespace(self, policy: Policy, level: Level) -> Methods:
        """Return the handlers that get, set and remove a policy of a namespace."""
        kind: TypeAdapter[Any] = TypeAdapter(policy.value.kind_at(level))
        read = _READERS.get((policy, False)) or partial(body, kind=kind)

        def get(request: Request) -> object:
            return _json(self._of_namespace(policy, self._owners.namespace(request)), level.unset)

        async def write(request: Request) -> None:
            self._owners.namespace(request)
            value = await read(request)
            check_value(policy, level, value)
            await self._set(request, policy, level, value)

        async def remove(request: Request) -> None:
            await self._set(request, policy, level, None)

        return Methods(get, write, remove, kind)

    def of_topic(self, policy: Policy, level: Level) -> Methods:
        """Return the handlers that get, set and remove a policy of a topic."""
        kind: TypeAdapter[Any] = TypeAdapter(policy.value.kind_at(level))
        read = _READERS.get((policy, True)) or partial(body, kind=kind)

        def get(request: Request) -> object:
            topic = self._owners.topic(request)
            if flag(request, "isGlobal"):
                return level.unset
            if flag(request, "applied"):
                return _json(self._applied(policy, level, topic), level.unset)
            return _json(getattr(self._owners.own(topic), level.field), level.unset)

        async def write(request: Request) -> None:
            topic = self._owners.to_change(request)
            _check_local(request)
            value = await read(request)
            check_value(policy, level, value)
            if policy is Policy.MAX_MESSAGE_SIZE and value > self._owners.message_size_max:
                raise AdminError(HTTPStatus.PRECONDITION_FAILED, level.refusal)
            await self._owners.set_topic(topic, **{level.field: value})

        async def remove(request: Request) -> None:
            topic = self._owners.to_change(request)
            _check_local(request)
            await self._owners.set_topic(topic, **{level.field: None})

        return Methods(get, write, remove, kind)

    def all_of_topic(self, request: Request) -> dict[str, Any]:
        """Return all policies that a topic sets."""
        topic = self._owners.topic(request)
        found = self._owners.own(topic).to_json()
        return with_last_edit(self._context, ResourceType.TOPIC_POLICIES, topic.partitioned_topic, found)

    # -- new schemas --------------------------------------------------------------------------------------------

    def auto_updates_schemas(self, request: Request) -> bool:
        return self._owners.namespace(request).is_allow_auto_update_schema

    async def set_auto_update_of_schemas(self, request: Request) -> None:
        self._owners.namespace(request)
        allowed = await body(request, _FLAG)
        await self._owners.set(request, is_allow_auto_update_schema=allowed)

    # -- values -------------------------------------------------------------------------------------------------

    def _of_namespace(self, policy: Policy, policies: Policies) -> Any:  # noqa: ANN401 - of any policy
        if policy.namespace is None:
            return None
        if policy is Policy.OFFLOAD_DELETION_LAG and policies.offload_policies is not None:
            return policies.offload_policies.managedLedgerOffloadDeletionLagInMillis
        value = getattr(policies, policy.namespace.field)
        return value.get(self._owners.cluster) if policy.value.is_per_cluster else value

    async def _set(self, request: Request, policy: Policy, level: Level, value: object) -> None:
        policies = self._owners.namespace(request)
        if policy.value.is_per_cluster:
            values = {**getattr(policies, level.field), self._owners.cluster: value}
            value = {cluster: each for cluster, each in values.items() if each is not None}
        fields = {level.field: value}
        if policy in OFFLOAD_FIELDS:
            offload = policies.offload_policies or OffloadPolicies()
            fields["offload_policies"] = offload.model_copy(update={OFFLOAD_FIELDS[policy]: value})
        if policy is Policy.OFFLOAD_DELETION_LAG:
            fields[level.field] = None  # Pulsar stores it in the offload policies only
        await self._owners.set(request, self._owners.cluster if policy.value.is_per_cluster else None, **fields)

    def _applied(self, policy: Policy, level: Level, topic: TopicName) -> Any:  # noqa: ANN401 - of any policy
        if policy.value.effective is not None:
            return getattr(self._owners.applied(topic), policy.value.effective)
        for found in (
            getattr(self._owners.own(topic), level.field),
            self._of_namespace(policy, self._owners.of_namespace(topic)),
        ):
            if found is not None:
                return found
        return level.applied


def _check_local(request: Request) -> None:
    """Refuse a policy for all clusters: each cluster keeps its own policies of a topic."""
    if flag(request, "isGlobal"):
        message = "Magnetar does not support global policies of topics: set the policy in each cluster"
        raise AdminError(HTTPStatus.NOT_IMPLEMENTED, message)


def _json(value: Any, unset: Any) -> object:  # noqa: ANN401 - any JSON value
    if value is None:
        return unset
    return value.to_json() if isinstance(value, Document) else value
