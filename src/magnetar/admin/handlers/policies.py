"""Policies of namespaces and topics: one table, with the same verbs for all policies at both levels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from magnetar.admin.exchange import AdminRoute, Context, body, flag, route
from magnetar.admin.handlers.policy_checks import check_value
from magnetar.admin.handlers.policy_owners import PolicyOwners
from magnetar.base.errors import AdminError
from magnetar.metadata.policy.document import Document
from magnetar.metadata.policy.table import Policy

if TYPE_CHECKING:
    from starlette.requests import Request

    from magnetar.base.names import TopicName
    from magnetar.metadata.policies import Policies
    from magnetar.metadata.policy.description import Level

Read = Callable[["Request"], Awaitable[Any]]
"""Reads the new value of a policy from a request."""

Method = Callable[["Request"], Any]

_FLAG: TypeAdapter[bool] = TypeAdapter(bool)


async def _message_ttl_of_topic(request: Request) -> int | None:
    value = request.query_params.get("messageTTL")
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        raise AdminError(HTTPStatus.BAD_REQUEST, f"messageTTL={value!r} is not a number of seconds") from None


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


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for policies."""
    handlers = _Handlers(context)
    namespace = "/admin/v2/namespaces/{tenant}/{namespace}"
    topic = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
    found = [
        route("GET", f"{namespace}/isAllowAutoUpdateSchema", handlers.auto_updates_schemas),
        route("POST", f"{namespace}/isAllowAutoUpdateSchema", handlers.set_auto_update_of_schemas),
    ]
    for policy in Policy:
        for owner, level, methods in (
            (namespace, policy.namespace, handlers.of_namespace),
            (topic, policy.topic, handlers.of_topic),
        ):
            if level is not None:
                get, write, remove = methods(policy, level)
                is_ignored = policy.value.effective is None
                found += [
                    route("GET", f"{owner}/{level.path}", get),
                    route(level.method, f"{owner}/{level.path}", write, is_without_effect=is_ignored),
                    route("DELETE", f"{owner}/{level.removal or level.path}", remove, is_without_effect=is_ignored),
                ]
    return found


class _Handlers:
    def __init__(self, context: Context) -> None:
        self._owners = PolicyOwners(context)

    def of_namespace(self, policy: Policy, level: Level) -> tuple[Method, Method, Method]:
        """Return the handlers that get, set and remove a policy of a namespace."""
        read = _READERS.get((policy, False)) or partial(body, kind=TypeAdapter(policy.value.kind_at(level)))

        def get(request: Request) -> object:
            return _json(self._of_namespace(policy, self._owners.namespace(request)), level.unset)

        async def write(request: Request) -> None:
            self._owners.namespace(request)
            value = await read(request)
            check_value(policy, level, value)
            await self._set(request, policy, level, value)

        async def remove(request: Request) -> None:
            await self._set(request, policy, level, None)

        return get, write, remove

    def of_topic(self, policy: Policy, level: Level) -> tuple[Method, Method, Method]:
        """Return the handlers that get, set and remove a policy of a topic."""
        read = _READERS.get((policy, True)) or partial(body, kind=TypeAdapter(policy.value.kind_at(level)))

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

        return get, write, remove

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
        value = getattr(policies, policy.namespace.field)
        return value.get(self._owners.cluster) if policy.value.is_per_cluster else value

    async def _set(self, request: Request, policy: Policy, level: Level, value: object) -> None:
        policies = self._owners.namespace(request)
        if policy.value.is_per_cluster:
            values = {**getattr(policies, level.field), self._owners.cluster: value}
            value = {cluster: each for cluster, each in values.items() if each is not None}
        await self._owners.set(request, **{level.field: value})

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
