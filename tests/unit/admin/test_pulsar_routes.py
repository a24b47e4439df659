from __future__ import annotations

import re

import httpx
import pytest
from starlette.routing import Match

from magnetar.admin.api import build_app, served_routes
from magnetar.admin.exchange import ROUTE, Context, route
from magnetar.admin.pulsar_api.differences import DIFFERENCES
from magnetar.admin.pulsar_api.routes import GROUPS, NEVER, PulsarRoute, Status, by_key, shape
from tests.unit.admin.fake_service import AppTransport, new_service

ROUTES = [each for group in GROUPS for each in group.routes()]

NEVER_SERVED = sorted({each.path for each in ROUTES if each.group.is_never and each.method == "GET"})


def path_of(pulsar_route: PulsarRoute) -> str:
    return re.sub(r"\{\w+\}", "1", pulsar_route.path)


def handler(_: object) -> None:
    """Serve a route."""


def test_each_route_is_listed_once() -> None:
    assert len(ROUTES) > 600
    assert len({each.key for each in ROUTES}) == len(ROUTES)


@pytest.mark.parametrize("path", ["/proxy-stats/topics", "/admin/namespaces/{cluster}/antiAffinity/{group}"])
def test_paths_of_pulsar_admin_outside_of_the_versions_are_listed(path: str) -> None:
    assert path in {each.path for each in ROUTES}


def test_each_route_reaches_its_own_handler() -> None:
    service = new_service()
    (routes,) = build_app(service, service.resources).routes
    for each in ROUTES:
        match, found = routes.matches({"type": "http", "method": each.method, "path": path_of(each)})
        assert match is Match.FULL, each
        assert shape(found[ROUTE].path) == shape(each.path)


def test_the_status_of_a_route_depends_on_the_handlers() -> None:
    service = new_service()
    served = by_key(served_routes(Context(service, service.resources)))
    statuses = {each.path: each.status(served) for each in ROUTES if each.method == "GET"}
    assert statuses["/admin/v2/persistent/{tenant}/{namespace}/{topic}/stats"] is Status.SERVED
    assert statuses["/admin/v3/transactions/coordinators"] is Status.NOT_YET
    assert statuses["/admin/v3/sinks/builtinsinks"] is Status.NEVER


def test_only_answers_of_served_routes_differ() -> None:
    service = new_service()
    served = by_key(served_routes(Context(service, service.resources)))
    different = [each for each in ROUTES if each.name in DIFFERENCES]
    assert len(different) == len(DIFFERENCES)
    assert {each.status(served) for each in different} <= {Status.SERVED, Status.STORED}


def test_a_route_without_effect_is_marked() -> None:
    stored = route("POST", "/admin/v2/resource-quotas", handler, is_without_effect=True)
    (found,) = (each for each in ROUTES if each.key == ("POST", "/admin/v2/resource-quotas"))
    assert found.status(by_key([stored])) is Status.STORED


@pytest.mark.parametrize("path", NEVER_SERVED)
def test_never(path: str) -> None:
    with httpx.Client(transport=AppTransport(new_service()), base_url="http://127.0.0.1:18080") as client:
        response = client.get(re.sub(r"\{\w+\}", "1", path))
    assert (response.status_code, response.json()) == (501, {"reason": NEVER})
