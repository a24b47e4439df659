"""The routes and the addresses of clusters in a metadata store, for the broker and for lookup services."""

from __future__ import annotations

import asyncio
import json
from hashlib import blake2b
from typing import TYPE_CHECKING

from magnetar.metadata.routes.atlas import Atlas

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.metadata.resources import Resources
    from magnetar.metadata.routes.table import RouteTable


class FollowedRoutes:
    """The table of all routes of a metadata store, which follows their changes. Used on the event loop's thread."""

    def __init__(self, resources: Resources, cluster: str) -> None:
        """Follow ``resources`` of ``cluster`` until ``stop``."""
        self._resources = resources
        self._cluster = cluster
        self.table: RouteTable = resources.routes.table()
        self._observers: dict[object, Callable[[str], None]] = {}
        self._changed = asyncio.Event()
        self._ends = (resources.routes.watch(self._route_changed), resources.clusters.watch(self._cluster_changed))

    def stop(self) -> None:
        """Follow no further changes."""
        for end in self._ends:
            end()

    def observe(self, callback: Callable[[str], None]) -> None:
        """Call ``callback`` with the scope of each changed route, after the table has it."""
        self._observers[callback] = callback

    def atlas(self) -> Atlas:
        """Return the routes and addresses of now."""
        clusters = {
            name: found for name in self._resources.clusters.names() if (found := self._resources.clusters.get(name))
        }
        return Atlas(cluster=self._cluster, version=self.version, routes=self.table.to_json(), clusters=clusters)

    @property
    def version(self) -> str:
        """The version of ``atlas``."""
        clusters = self._resources.clusters
        known = [[name, found.to_json()] for name in clusters.names() if (found := clusters.get(name)) is not None]
        addresses = blake2b(json.dumps([self._cluster, known], sort_keys=True).encode(), digest_size=8).hexdigest()
        return f"{self.table.version}-{addresses}"

    async def changed(self, version: str, wait_s: float) -> None:
        """Return when the version is another one, at the latest after ``wait_s`` seconds."""
        try:
            async with asyncio.timeout(wait_s):
                while self.version == version:
                    await self._changed.wait()
        except TimeoutError:
            return

    def _route_changed(self, scope: str) -> None:
        stored = self._resources.routes.get(scope)
        self.table.set(scope, None if stored is None else stored.value)
        self._wake()
        for observer in tuple(self._observers.values()):
            observer(scope)

    def _cluster_changed(self, _: str) -> None:
        self._wake()

    def _wake(self) -> None:
        """Let all that wait look at the version again."""
        self._changed.set()
        self._changed = asyncio.Event()
