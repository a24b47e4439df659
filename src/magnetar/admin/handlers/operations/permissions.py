"""Permissions of roles in namespaces, topics and subscriptions."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter

from magnetar.admin.access import check_permission
from magnetar.admin.exchange import AdminRoute, Context, body, namespace_name, path_text, route
from magnetar.authorization.needs import TENANT_ADMIN, Resource
from magnetar.base.errors import AdminError, InvalidTopicNameError
from magnetar.base.names import TopicName
from magnetar.metadata.policies import AuthAction

if TYPE_CHECKING:
    from starlette.requests import Request

    from magnetar.base.names import NamespaceName
    from magnetar.metadata.policies import AuthPolicies


class Revocation(BaseModel):
    """A role whose permissions for a topic are revoked."""

    topic: str
    role: str


class Grant(Revocation):
    """Permissions of a role for a topic."""

    actions: list[AuthAction]


_ACTIONS: TypeAdapter[list[AuthAction] | None] = TypeAdapter(list[AuthAction] | None)
_ROLES: TypeAdapter[list[str] | None] = TypeAdapter(list[str] | None)
_GRANTS: TypeAdapter[list[Grant]] = TypeAdapter(list[Grant])
_REVOCATIONS: TypeAdapter[list[Revocation]] = TypeAdapter(list[Revocation])


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for permissions."""
    handlers = _Permissions(context)
    root = "/admin/v2/namespaces"
    namespace = f"{root}/{{tenant}}/{{namespace}}/permissions"
    topic = "/admin/v2/persistent/{tenant}/{namespace}/{topic}/permissions"

    invalid = [404, 412]
    return [
        route("GET", namespace, handlers.of_namespace, gives=dict[str, list[AuthAction]]),
        route("POST", f"{namespace}/{{role}}", handlers.grant, takes=_ACTIONS),
        route("DELETE", f"{namespace}/{{role}}", handlers.revoke),
        route("GET", f"{namespace}/subscription", handlers.of_subscriptions, gives=dict[str, list[str]]),
        route("POST", f"{namespace}/subscription/{{subscription}}", handlers.grant_for_subscription, takes=_ROLES),
        route("DELETE", f"{namespace}/{{subscription}}/{{role}}", handlers.revoke_for_subscription),
        route("GET", topic, handlers.of_topic, gives=dict[str, list[AuthAction]]),
        route("POST", f"{topic}/{{role}}", handlers.grant_for_topic, takes=_ACTIONS),
        route("DELETE", f"{topic}/{{role}}", handlers.revoke_for_topic),
        route("POST", f"{root}/grantPermissionsOnTopics", handlers.grant_for_topics, takes=_GRANTS, refuses=invalid),
        route(
            "POST", f"{root}/revokePermissionsOnTopics", handlers.revoke_for_topics, takes=_REVOCATIONS, refuses=invalid
        ),
    ]


class _Permissions:
    def __init__(self, context: Context) -> None:
        self._context = context

    # -- namespaces ---------------------------------------------------------------------------------------------

    def of_namespace(self, request: Request) -> dict[str, Any]:
        return self._auth(namespace_name(request)).namespace_auth

    async def grant(self, request: Request) -> None:
        namespace, actions = namespace_name(request), await _actions(request)
        permitted = self._auth(namespace).namespace_auth | {path_text(request, "role"): actions}
        await self._store(namespace, namespace_auth=permitted)

    async def revoke(self, request: Request) -> None:
        namespace = namespace_name(request)
        permitted = dict(self._auth(namespace).namespace_auth)
        permitted.pop(path_text(request, "role"), None)
        await self._store(namespace, namespace_auth=permitted)

    # -- subscriptions ------------------------------------------------------------------------------------------

    def of_subscriptions(self, request: Request) -> dict[str, Any]:
        return self._auth(namespace_name(request)).subscription_auth_roles

    async def grant_for_subscription(self, request: Request) -> None:
        namespace, name = namespace_name(request), path_text(request, "subscription")
        roles = await body(request, _ROLES)
        if roles is None:
            raise AdminError(HTTPStatus.BAD_REQUEST, "Roles should not be null")
        known = self._auth(namespace).subscription_auth_roles | {name: list(dict.fromkeys(roles))}
        await self._store(namespace, subscription_auth_roles=known)

    async def revoke_for_subscription(self, request: Request) -> None:
        namespace, name = namespace_name(request), path_text(request, "subscription")
        known = dict(self._auth(namespace).subscription_auth_roles)
        if name not in known:
            raise AdminError(HTTPStatus.NOT_FOUND, f"No role has a permission for subscription {name}")
        known[name] = [role for role in known[name] if role != path_text(request, "role")]
        if not known[name]:
            del known[name]
        await self._store(namespace, subscription_auth_roles=known)

    # -- topics -------------------------------------------------------------------------------------------------

    def of_topic(self, request: Request) -> dict[str, list[str]]:
        """Return the permissions in the namespace, extended by those of the topic."""
        topic = self._context.topic(request)
        auth = self._auth(topic.namespace_name)
        permitted: dict[str, dict[str, None]] = {}
        for each in (auth.namespace_auth, auth.destination_auth.get(str(topic), {})):
            for role, actions in each.items():
                permitted.setdefault(role, {}).update(dict.fromkeys(actions))
        return {role: list(actions) for role, actions in permitted.items()}

    async def grant_for_topic(self, request: Request) -> None:
        topic = self._context.topic(request)
        await self._set_for_topic(topic, path_text(request, "role"), await _actions(request))

    async def revoke_for_topic(self, request: Request) -> None:
        await self._set_for_topic(self._context.topic(request), path_text(request, "role"), None)

    async def grant_for_topics(self, request: Request) -> None:
        for grant in await body(request, _GRANTS):
            await self._set_for_topic(_permitted(request, grant), grant.role, grant.actions)

    async def revoke_for_topics(self, request: Request) -> None:
        for each in await body(request, _REVOCATIONS):
            await self._set_for_topic(_permitted(request, each), each.role, None)

    async def _set_for_topic(self, topic: TopicName, role: str, actions: list[AuthAction] | None) -> None:
        """Permit actions to a role; None revokes its permissions for the topic."""
        known = dict(self._auth(topic.namespace_name).destination_auth)
        permitted = dict(known.pop(str(topic), {}))
        permitted.pop(role, None)
        if actions is not None:
            permitted[role] = actions
        if permitted:
            known[str(topic)] = permitted
        await self._store(topic.namespace_name, destination_auth=known)

    # -- storage ------------------------------------------------------------------------------------------------

    def _auth(self, namespace: NamespaceName) -> AuthPolicies:
        return self._context.policies(namespace).auth_policies

    async def _store(self, namespace: NamespaceName, **fields: object) -> None:
        auth = self._auth(namespace).model_copy(update=fields)
        namespaces = self._context.resources.namespaces
        await namespaces.update(namespace, lambda policies: policies.model_copy(update={"auth_policies": auth}))


async def _actions(request: Request) -> list[AuthAction]:
    actions = await body(request, _ACTIONS)
    if actions is None:
        raise AdminError(HTTPStatus.BAD_REQUEST, "Actions should not be null")
    return sorted(set(actions))


def _permitted(request: Request, each: Revocation) -> TopicName:
    """Return the topic of a change; refuses it if the role of the request is no admin of the tenant."""
    try:
        topic = TopicName.parse(each.topic)
    except InvalidTopicNameError as error:
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, str(error)) from None
    check_permission(request, TENANT_ADMIN, Resource.of_topic(topic))
    return topic
