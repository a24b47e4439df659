"""The decision whether a principal may do something, from the stored tenant and policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from magnetar.authorization.needs import NAMESPACE_OPERATIONS, TOPIC_OPERATIONS, Need, Resource, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from magnetar.base.names import TopicName
    from magnetar.metadata.policies import AuthPolicies, Policies, TenantInfo
    from magnetar.security.principal import Principal

    Permissions = Mapping[str, Sequence[str]]
    """Actions by role."""

ALL_CLUSTERS: Final = "*"
"""Binding of a replicator to all clusters."""

_INVALID: Final = "Invalid combination of Original principal cannot be empty if the request is via proxy."

_UNCHECKED: Final = (Scope.ANYONE, Scope.OWN, Scope.HANDLER)


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of the broker."""

    super_users: frozenset[str] = frozenset()
    """``superUserRoles``."""
    proxies: frozenset[str] = frozenset()
    """``proxyRoles``."""
    replicators: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """``replicatorRoles``: the clusters for which each role may act."""
    allows_wildcards: bool = False
    """``authorizationAllowWildcardsMatching``."""


@dataclass(frozen=True, slots=True)
class State:
    """What is stored about a resource; None for what does not exist, or what the resource does not name."""

    tenant: TenantInfo | None = None
    policies: Policies | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a request that is not permitted."""

    status: HTTPStatus
    reason: str
    subscription_reason: str = ""
    """Reason that names the subscription, if its name is refused."""


def refusal(need: Need, resource: Resource, principal: Principal, state: State, rules: Rules) -> Refusal | None:
    """Return why the principal may not do what has the ``need``; None if it may.

    Through a proxy, both its role and the original role must be permitted.
    """
    if need.scope in _UNCHECKED:
        return None
    if not is_valid(principal, rules):
        return Refusal(HTTPStatus.UNAUTHORIZED, _INVALID)
    if state.tenant is None and resource.tenant and not _are_super_users(principal, rules):
        return Refusal(HTTPStatus.NOT_FOUND, "Tenant does not exist")
    for role in _roles(principal):
        reason = _reason(need, resource, role, state, rules)
        if reason is not None:
            return Refusal(*_answer(need, resource, principal, rules), subscription_reason=reason)
    return None


def is_valid(principal: Principal, rules: Rules) -> bool:
    """Return whether the roles may occur together: a proxy must act for another role, which is no proxy."""
    if principal.role not in rules.proxies:
        return True
    return bool(principal.original) and principal.original not in rules.proxies


def _roles(principal: Principal) -> Iterable[str]:
    return (principal.role, principal.original) if principal.original else (principal.role,)


def _are_super_users(principal: Principal, rules: Rules) -> bool:
    return all(role in rules.super_users for role in _roles(principal))


def _reason(need: Need, resource: Resource, role: str, state: State, rules: Rules) -> str | None:
    """Return None if the role may, else a reason, which is empty unless it is about the subscription."""
    if role and (need.scope is Scope.AUTHENTICATED or role in rules.super_users):
        return None
    if need.scope is Scope.REPLICATOR:
        return None if _acts_for(resource.cluster, rules.replicators.get(role, frozenset())) else ""
    if need.is_for_links and rules.replicators.get(role):
        return None
    if not role or need.scope in (Scope.SUPERUSER, Scope.AUTHENTICATED):
        return ""
    if state.tenant is not None and role in state.tenant.adminRoles:
        return None
    return _reason_of_permissions(need, resource, role, state.policies, rules)


def _acts_for(cluster: str | None, bound: frozenset[str]) -> bool:
    return bool(bound) if cluster is None else ALL_CLUSTERS in bound or cluster in bound


def _reason_of_permissions(
    need: Need, resource: Resource, role: str, policies: Policies | None, rules: Rules
) -> str | None:
    """Return as ``_reason`` for a role that is no admin of the tenant."""
    if policies is None:
        return ""
    auth = policies.auth_policies
    if need.scope is Scope.NAMESPACE:
        permitted = [auth.namespace_auth]
        return None if _is_permitted(NAMESPACE_OPERATIONS[need.operation], role, permitted, rules) else ""
    if need.scope is not Scope.TOPIC or resource.topic is None:
        return ""
    actions = TOPIC_OPERATIONS[need.operation]
    if actions == ("consume",) and resource.subscription:
        reason = _reason_of_subscription(resource, role, policies)
        if reason is not None:
            return reason
    return None if _is_permitted_on_topic(actions, role, resource.topic, auth, rules) else ""


def _reason_of_subscription(resource: Resource, role: str, policies: Policies) -> str | None:
    name = resource.subscription
    roles = policies.auth_policies.subscription_auth_roles.get(name)
    if roles and role not in roles:
        return f"{role} is not authorized to access subscription {name} on topic {resource.topic}"
    if policies.subscription_auth_mode == "Prefix" and not name.startswith(role):
        return (
            "Failed to create consumer - The subscription name needs to be prefixed by the authentication role, "
            f"like {role}-xxxx for topic: {resource.topic}"
        )
    return None


def _is_permitted_on_topic(
    actions: Sequence[str], role: str, topic: TopicName, auth: AuthPolicies, rules: Rules
) -> bool:
    of_topic = auth.destination_auth.get(str(topic), {})
    if _is_permitted(actions, role, (auth.namespace_auth, of_topic), rules):
        return True
    # A partition that was added later has no permissions of its own.
    whole = auth.destination_auth.get(str(topic.partitioned_topic), {})
    return not _disjoint(actions, whole.get(role, ()))


def _is_permitted(actions: Sequence[str], role: str, permitted: Iterable[Permissions], rules: Rules) -> bool:
    for each in permitted:
        if not _disjoint(actions, each.get(role, ())):
            return True
        if rules.allows_wildcards and any(
            _matches(pattern, role) and not _disjoint(actions, found) for pattern, found in each.items()
        ):
            return True
    return False


def _disjoint(actions: Iterable[str], permitted: Iterable[str]) -> bool:
    return set(actions).isdisjoint(permitted)


def _matches(pattern: str, role: str) -> bool:
    """Return whether ``prefix*`` or ``*suffix`` matches the role."""
    is_prefix = pattern.endswith("*") and role.startswith(pattern[:-1])
    return is_prefix or (pattern.startswith("*") and role.endswith(pattern[1:]))


def _answer(need: Need, resource: Resource, principal: Principal, rules: Rules) -> tuple[HTTPStatus, str]:
    """Return the status and the text with which Apache Pulsar refuses a request."""
    match need.scope:
        case Scope.SUPERUSER | Scope.AUTHENTICATED | Scope.REPLICATOR:
            return HTTPStatus.UNAUTHORIZED, _super_user_text(principal, rules)
        case Scope.TENANT:
            return HTTPStatus.UNAUTHORIZED, "Don't have permission to administrate resources on this tenant"
        case Scope.TENANT_OPERATION:
            about = f"about operation [{need.operation}] on tenant [{resource.tenant}]"
            who = f"originalPrincipal [{principal.original or 'null'}] and clientAppId [{principal.role}]"
            return HTTPStatus.UNAUTHORIZED, f"Unauthorized to validateTenantOperation for {who} {about}"
        case Scope.NAMESPACE:
            where = f"on namespace [{resource.namespace}]"
            text = f"Unauthorized to validateNamespaceOperation for operation [{need.operation}] {where}"
            return HTTPStatus.FORBIDDEN, text
        case Scope.TOPIC:
            where = f"on topic [{resource.topic}]"
            text = f"Unauthorized to validateTopicOperation for operation [{need.operation}] {where}"
            return HTTPStatus.UNAUTHORIZED, text
        case _:
            kind, where = "Topic", f"on topic [{resource.topic}]"
            if need.scope is Scope.NAMESPACE_POLICY:
                kind, where = "Namespace", f"on namespace [{resource.namespace}]"
            about = f"operation [{need.operation}] {where} on policy [{need.policy}]"
            return HTTPStatus.FORBIDDEN, f"Unauthorized to validate{kind}PolicyOperation for {about}"


def _super_user_text(principal: Principal, rules: Rules) -> str:
    if principal.role not in rules.proxies:
        return "This operation requires super-user access"
    if principal.role not in rules.super_users:
        return f"Proxy not authorized for super-user operation (proxy:{principal.role})"
    return f"Original principal not authorized for super-user operation (original:{principal.original})"
