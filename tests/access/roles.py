"""The clients of the matrix, and which of them may do what.

The answers follow the guide of authorization. They are stated here again, so that an error in the decisions of the
broker is found.
"""

from __future__ import annotations

import base64
import time
from typing import Final

import jwt

from magnetar.authorization.decisions import Rules, State
from magnetar.authorization.needs import Need, Scope
from magnetar.metadata.policies import AuthPolicies, Policies, TenantInfo

SECRET: Final = b"a secret key of more than 32 bytes for this test"

TENANT: Final = "shop"
NAMESPACE: Final = "shop/web"
TOPIC: Final = "persistent://shop/web/orders"
CLUSTER: Final = "jfk"
"""The cluster that the replicator ``link`` may act for."""

NO_CREDENTIALS, WRONG, EXPIRED = "no credentials", "wrong credentials", "expired credentials"
UNPROVED: Final = (NO_CREDENTIALS, WRONG, EXPIRED)
"""Clients that prove no role. The latter two present a token of a superuser: with another key, and of yesterday."""

STRANGER, RIVAL = "stranger", "rival"
"""Roles without a permission: the latter is the admin of another tenant."""

WRITER, READER, ADMIN = "writer", "reader", "admin"
"""Roles with a permission to produce, a permission to consume, and the admin of the tenant."""

ROOT, LINK, LINKS = "root", "link", "links"
"""The superuser, and replicators: of CLUSTER, and of all clusters."""

ROLES: Final = (STRANGER, RIVAL, WRITER, READER, LINK, LINKS, ADMIN, ROOT)

SETTINGS: Final = {
    "authenticationEnabled": "true",
    "authenticationProviders": "token",
    "tokenSecretKey": f"data:;base64,{base64.b64encode(SECRET).decode()}",
    "authorizationEnabled": "true",
    "superUserRoles": ROOT,
    "replicatorRoles": f"{LINK}={CLUSTER},{LINKS}=*",
}

PERMISSIONS: Final = {WRITER: ["produce"], READER: ["consume"]}
RULES: Final = Rules(super_users=frozenset({ROOT}), replicators={LINK: frozenset({CLUSTER}), LINKS: frozenset({"*"})})
STATE: Final = State(TenantInfo(adminRoles=[ADMIN]), Policies(auth_policies=AuthPolicies(namespace_auth=PERMISSIONS)))
"""The settings and the metadata as the decisions of the broker see them."""

_BOTH: Final = frozenset({"LOOKUP", "GET_STATS", "GET_METADATA", "GET_TOPICS", "GET_BUNDLE"})
_READING: Final = frozenset(
    {
        "CONSUME",
        "GET_SUBSCRIPTIONS",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "SKIP",
        "EXPIRE_MESSAGES",
        "PEEK_MESSAGES",
        "RESET_CURSOR",
        "GET_BACKLOG_SIZE",
        "SET_REPLICATED_SUBSCRIPTION_STATUS",
        "GET_REPLICATED_SUBSCRIPTION_STATUS",
        "CLEAR_BACKLOG",
    }
)
"""Operations for which a permission to consume suffices."""


def token_of(client: str) -> str:
    """Return the token that a client presents; empty if it presents none."""
    if client == NO_CREDENTIALS:
        return ""
    if client == WRONG:
        return jwt.encode({"sub": ROOT}, SECRET[::-1], "HS256")
    if client == EXPIRED:
        return jwt.encode({"sub": ROOT, "exp": time.time() - 24 * 3600}, SECRET, "HS256")
    return jwt.encode({"sub": client}, SECRET, "HS256")


def permitted(need: Need, cluster: str | None = None) -> frozenset[str]:
    """Return the roles that may do what has the ``need``, in NAMESPACE; ``cluster`` is that of a replicator."""
    links = {LINK, LINKS} if need.is_for_links else set()
    match need.scope:
        case Scope.ANYONE | Scope.OWN | Scope.AUTHENTICATED | Scope.HANDLER:
            return frozenset(ROLES)
        case Scope.SUPERUSER:
            return frozenset({ROOT, *links})
        case Scope.REPLICATOR:
            return frozenset({ROOT, LINKS} | ({LINK} if cluster in (None, CLUSTER) else set()))
        case Scope.NAMESPACE | Scope.TOPIC:
            writers = {WRITER} if need.operation in _BOTH or need.operation == "PRODUCE" else set()
            readers = {READER} if need.operation in _BOTH or need.operation in _READING else set()
            return frozenset({ROOT, ADMIN, *links, *writers, *readers})
        case _:
            return frozenset({ROOT, ADMIN, *links})
