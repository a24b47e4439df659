"""Requests of the admin API by roles with and without permission."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from magnetar.admin.api import build_app, served_routes
from magnetar.admin.exchange import Context
from magnetar.admin.identity import set_principal
from magnetar.authorization.access import Access
from magnetar.authorization.decisions import Rules
from magnetar.authorization.needs import Scope
from magnetar.authorization.routes import need_of
from magnetar.broker.web.changes import AuditedChanges
from magnetar.security.principal import Principal
from tests.unit.admin.fake_service import new_service

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from magnetar.security.audit import AuditEvent

RULES = Rules(super_users=frozenset({"root"}), replicators={"link": frozenset({"*"})})
UNCHECKED = (Scope.ANYONE, Scope.HANDLER)
NAMES = {"tenant": "nyc", "namespace": "n", "topic": "x", "bundle": "0x00000000_0xffffffff", "allocator": "default"}

Call = tuple[str, str, str, object]
"""Role, method, path and body."""

PREPARED: Call = ("root", "PUT", "/admin/v2/namespaces/nyc/n", None)


def answers(calls: list[Call], events: list[AuditEvent] | None = None) -> list[httpx.Response]:
    """Return the answers of a broker with the tenant nyc, whose admin is ``admin``; ``events`` get what it records."""
    service, record = new_service(), (lambda _: None) if events is None else events.append
    tenants = service.resources.tenants
    tenants.update("nyc", lambda found: found.model_copy(update={"adminRoles": ["admin"]}))
    app = AuditedChanges(build_app(service, service.resources, Access(RULES, service.resources, record)), record)
    role = ""

    async def identified(scope: Any, receive: Receive, send: Send) -> None:  # noqa: ANN401 - any scope
        scope["state"] = {}  # as the web server does
        set_principal(scope, Principal(role, "token"))
        await app(scope, receive, send)

    async def call() -> list[httpx.Response]:
        nonlocal role
        transport = httpx.ASGITransport(identified, raise_app_exceptions=False)
        found = []
        async with httpx.AsyncClient(transport=transport, base_url="http://broker") as client:
            for each, method, path, body in [PREPARED, *calls]:
                role = each
                found.append(await client.request(method, path, json=body))
        return found[1:]

    return asyncio.run(call())


def test_each_request_is_refused_as_the_table_says() -> None:
    service = new_service()
    routes = served_routes(Context(service, service.resources))
    kinds = [(method, route.path) for route in routes for method in sorted(route.methods - {"HEAD"})]
    paths = [re.sub(r"{(\w+)(:int)?}", lambda found: NAMES.get(found[1], "1"), path) for _, path in kinds]
    found = answers([("stranger", method, path, None) for (method, _), path in zip(kinds, paths, strict=True)])
    refused = {kind for kind, answer in zip(kinds, found, strict=True) if answer.status_code in (401, 403)}
    assert refused == {kind for kind in kinds if need_of(*kind).scope not in UNCHECKED}


@pytest.mark.parametrize(
    ("role", "method", "path", "body", "status", "reason"),
    [
        ("root", "GET", "/admin/v2/tenants", None, 200, None),
        ("link", "GET", "/admin/v2/tenants", None, 200, None),
        ("admin", "GET", "/admin/v2/tenants", None, 401, "This operation requires super-user access"),
        ("admin", "GET", "/admin/v2/tenants/nyc", None, 200, None),
        ("admin", "PUT", "/admin/v2/namespaces/nyc/m", None, 204, None),
        ("admin", "GET", "/admin/v2/namespaces/other", None, 404, "Tenant does not exist"),
        ("admin", "POST", "/admin/v2/namespaces/nyc/n/messageTTL", 5, 204, None),
        (
            "stranger",
            "POST",
            "/admin/v2/namespaces/nyc/n/messageTTL",
            5,
            403,
            (
                "Unauthorized to validateNamespacePolicyOperation for operation [WRITE] on namespace [nyc/n] on "
                "policy [TTL]"
            ),
        ),
        ("stranger", "GET", "/admin/v2/namespaces/nyc/a b", None, 412, "Namespace name is not valid"),
        ("stranger", "GET", "/admin/v2/worker/cluster", None, 401, "This operation requires super-user access"),
        ("root", "GET", "/admin/v2/worker/cluster", None, 501, ...),
    ],
)
def test_roles_get_the_answers_of_pulsar(
    role: str, method: str, path: str, body: object, status: int, reason: object
) -> None:
    (answer,) = answers([(role, method, path, body)])
    assert answer.status_code == status
    if isinstance(reason, str):
        assert answer.json() == {"reason": reason}


def test_a_grant_for_topics_needs_an_admin_of_each_tenant() -> None:
    grants = [
        {"topic": "persistent://nyc/n/x", "role": "r", "actions": ["consume"]},
        {"topic": "persistent://other/n/x", "role": "r", "actions": ["consume"]},
    ]
    path = "/admin/v2/namespaces/grantPermissionsOnTopics"
    stranger, one, both = answers(
        [("stranger", "POST", path, grants), ("admin", "POST", path, grants[:1]), ("admin", "POST", path, grants)]
    )
    assert (stranger.status_code, one.status_code, both.status_code) == (401, 204, 404)


def test_a_grant_takes_effect_at_once() -> None:
    topics = ("reader", "GET", "/admin/v2/namespaces/nyc/n/topics", None)
    permission = "/admin/v2/namespaces/nyc/n/permissions/reader"
    found = answers(
        [topics, ("admin", "POST", permission, ["consume"]), topics, ("admin", "DELETE", permission, None), topics]
    )
    assert [each.status_code for each in found] == [403, 204, 200, 204, 403]


def test_a_permission_for_a_topic_is_none_for_that_of_the_other_domain() -> None:
    """The word in the name of the namespace is not the domain."""
    grant = [{"topic": "non-persistent://nyc/non-persistent/x", "role": "reader", "actions": ["consume"]}]
    namespace = ("root", "PUT", "/admin/v2/namespaces/nyc/non-persistent", None)
    granted = ("admin", "POST", "/admin/v2/namespaces/grantPermissionsOnTopics", grant)
    topic = "nyc/non-persistent/x/subscription/s"
    deletion = ("reader", "DELETE", f"/admin/v2/persistent/{topic}", None)
    *done, refused = answers([namespace, granted, deletion])
    assert [each.status_code for each in done] == [204, 204]
    assert refused.status_code == 401
    assert refused.json()["reason"].endswith("on topic [persistent://nyc/non-persistent/x]")


def test_each_refusal_and_each_change_is_recorded_once() -> None:
    events: list[AuditEvent] = []
    answers([("stranger", "GET", "/admin/v2/tenants", None)], events)
    answers([("stranger", "POST", "/admin/v2/namespaces/nyc/n/messageTTL", 5)], events)
    answers([("stranger", "DELETE", "/admin/v2/namespaces/absent/n", None)], events)
    answers([("admin", "POST", "/admin/v2/namespaces/nyc/n/messageTTL", 5)], events)
    answers([("admin", "POST", "/admin/v2/namespaces/nyc/n/messageTTL", -5)], events)
    found = [event for event in events if event.operation != "PUT"]  # the preparation of each call
    assert [(event.principal.role, event.result.value, event.operation, event.resource) for event in found] == [
        ("stranger", "denied", "superuser", ""),
        ("stranger", "denied", "WRITE TTL", "nyc/n"),
        ("stranger", "denied", "DELETE_NAMESPACE", "absent/n"),
        ("admin", "allowed", "POST", "/admin/v2/namespaces/nyc/n/messageTTL"),
        ("admin", "failed", "POST", "/admin/v2/namespaces/nyc/n/messageTTL"),
    ]
    assert len(events) == 2 * len(found)
    assert {event.address for event in found} == {"127.0.0.1:123", "/127.0.0.1:123"}
