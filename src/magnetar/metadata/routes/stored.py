"""Routes in a metadata store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.metadata.routes.document import ROUTES, StoredRoute, route_path, scope_at
from magnetar.metadata.routes.scope import scopes_of
from magnetar.metadata.routes.table import RouteTable
from magnetar.metadata.stored.documents import Documents

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.names import TopicName
    from magnetar.metadata.routes.table import Found


class Routes(Documents[str, StoredRoute]):
    """The routes by scope, with the deleted ones."""

    _kind = StoredRoute

    def table(self) -> RouteTable:
        """Return a table with all routes."""
        scopes = [scope_at(path) for path, _ in self._store.below(ROUTES)]
        return RouteTable({scope: found.value for scope in scopes if (found := self.get(scope)) is not None})

    def find(self, topic: TopicName) -> Found | None:
        """Return the route that counts for a topic; None if there is none."""
        stored = {scope: found.value for scope in scopes_of(topic) if (found := self.get(scope)) is not None}
        return RouteTable(stored).find(topic)

    def watch(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call ``callback`` with a scope after each change of its route; returns a function that ends the watch."""
        return self._store.watch(ROUTES, lambda change: callback(scope_at(change.path)))

    def _path(self, key: str) -> str:
        return route_path(key)
