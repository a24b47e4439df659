from __future__ import annotations

import pytest

from magnetar.base.errors import CorruptionError
from magnetar.base.real import SystemClock
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.routes.document import StoredRoute, route_path, scope_at
from magnetar.metadata.routes.stored import Routes
from magnetar.metadata.routes.table import Route
from tests.kit.stored import put

SCOPES = ("acme", "acme/orders", "persistent://acme/orders/b c", "non-persistent://acme/orders/a%2fb")


def test_routes_are_stored_and_watched_by_scope() -> None:
    store = MemoryMetadataStore(SystemClock())
    routes, seen = Routes(store), list[str]()
    end = routes.watch(seen.append)
    for number, scope in enumerate(SCOPES, start=1):
        put(store, route_path(scope), StoredRoute.of(Route("ewr", number)).to_bytes())
    assert seen == list(SCOPES)
    assert routes.table().all() == {scope: Route("ewr", SCOPES.index(scope) + 1) for scope in sorted(SCOPES)}
    end()
    put(store, route_path("acme"), StoredRoute.of(Route(None, 9)).to_bytes())
    assert seen == list(SCOPES)
    assert routes.table().get("acme") == Route(None, 9)


@pytest.mark.parametrize("scope", SCOPES)
def test_the_path_of_a_scope_names_it(scope: str) -> None:
    assert scope_at(route_path(scope)) == scope


def test_a_damaged_route_is_reported_with_its_path() -> None:
    store = MemoryMetadataStore(SystemClock())
    put(store, "/magnetar/routes/acme", b'{"route": {"epoch": 0}}')
    with pytest.raises(CorruptionError, match="/magnetar/routes/acme"):
        Routes(store).table()
