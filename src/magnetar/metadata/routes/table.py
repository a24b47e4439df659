"""The table of routes. Pure.

Tables merge: of two routes for the same scope, the one with the later epoch counts. Merging is commutative, associative
and idempotent, so a table can be gathered from several brokers in any order. A deleted route stays in the table with
its epoch, and no cluster: otherwise an older route could return.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from magnetar.base.errors import InvalidTopicNameError, RequestError
from magnetar.base.names import check_cluster_name
from magnetar.metadata.routes.scope import namespace_of, parse_scope, scopes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from magnetar.base.names import NamespaceName, TopicName

EPOCH_MAX = 2**53
"""Exclusive bound of epochs: all JSON parsers keep numbers below it."""

_DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True)
class Route:
    """The cluster that serves the clients of a scope."""

    cluster: str | None
    """None: the route was deleted, and a less specific one counts."""
    epoch: int
    """The version. It grows with each change, in all clusters."""

    def is_later_than(self, other: Route | None) -> bool:
        """Return whether this route counts. Of different routes with one epoch, the greater cluster counts."""
        return other is None or self.order > other.order

    @property
    def order(self) -> tuple[int, str]:
        """The place among all routes of a scope; the greatest one counts."""
        return self.epoch, self.cluster or ""

    def to_json(self) -> dict[str, Any]:
        """Return the route as JSON."""
        return {"epoch": self.epoch} if self.cluster is None else {"cluster": self.cluster, "epoch": self.epoch}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Parse the result of ``to_json``; raises ValueError."""
        match value:
            case {"epoch": int(epoch), **rest} if not isinstance(epoch, bool) and 0 < epoch < EPOCH_MAX:
                cluster = rest.get("cluster")
                if cluster is not None and not isinstance(cluster, str):
                    message = f"{cluster!r:.100} is no name of a cluster"
                    raise ValueError(message)
                if cluster is not None:
                    try:
                        check_cluster_name(cluster)
                    except RequestError as error:
                        raise ValueError(str(error)) from None
                return cls(cluster, epoch)
        message = f"{value!r:.100} is no route: expected an epoch from 1, and a cluster unless it was deleted"
        raise ValueError(message)


class Found(NamedTuple):
    """The route that counts for a topic."""

    scope: str
    route: Route

    @property
    def cluster(self) -> str:
        """The cluster that serves the topic's clients."""
        assert self.route.cluster is not None
        return self.route.cluster


def next_epoch(known: Route | None, now_ms: int) -> int:
    """Return the epoch of a change made now: the time, or more than the known epoch.

    An epoch that is a time also grows if all clusters lose their metadata, and a lookup service remembers earlier ones.
    """
    return max(now_ms, 1 if known is None else known.epoch + 1)


class RouteTable:
    """All known routes, by scope."""

    def __init__(self, routes: Mapping[str, Route] | None = None) -> None:
        """Begin with ``routes``."""
        self._routes: dict[str, Route] = {}
        self._in_namespace: dict[NamespaceName, dict[str, None]] = {}
        """The scopes of topics with a route, by namespace."""
        self._digest = 0
        for scope, route in (routes or {}).items():
            self.set(scope, route)

    def __len__(self) -> int:
        """Return the number of routes, without deleted ones."""
        return sum(each.cluster is not None for each in self._routes.values())

    def get(self, scope: str) -> Route | None:
        """Return the route of exactly this scope, also a deleted one."""
        return self._routes.get(scope)

    def all(self) -> dict[str, Route]:
        """Return the routes by scope, with the deleted ones."""
        return dict(sorted(self._routes.items()))

    def find(self, topic: TopicName) -> Found | None:
        """Return the route that counts for a topic: the most specific one; None if there is none."""
        return self._first(scopes_of(topic))

    def find_for_namespace(self, namespace: NamespaceName) -> Found | None:
        """Return the route that counts for topics of a namespace without a route of their own."""
        return self._first((str(namespace), namespace.tenant))

    def topics_in(self, namespace: NamespaceName) -> dict[str, Route]:
        """Return the routes of single topics of a namespace, by topic, without deleted ones."""
        found = ((scope, self._routes[scope]) for scope in self._in_namespace.get(namespace, ()))
        return {scope: route for scope, route in found if route.cluster is not None}

    def set(self, scope: str, route: Route | None) -> None:
        """Replace the route of a scope, whatever its epoch; None removes it without a trace."""
        before = self._routes.pop(scope, None)
        if before is not None:
            self._digest ^= _digest(scope, before)
        if route is not None:
            self._routes[scope] = route
            self._digest ^= _digest(scope, route)
        if "://" in scope:
            self._note_topic(scope, exists=route is not None)

    def merge(self, routes: Mapping[str, Route]) -> list[str]:
        """Take over the routes that are later than the known ones; return their scopes."""
        later = [scope for scope, route in routes.items() if route.is_later_than(self._routes.get(scope))]
        for scope in later:
            self.set(scope, routes[scope])
        return later

    @property
    def version(self) -> str:
        """A text that is equal for equal tables only, whatever the order of their changes."""
        return f"{self._digest:016x}"

    def to_json(self) -> dict[str, Any]:
        """Return the routes as JSON."""
        return {scope: route.to_json() for scope, route in self.all().items()}

    def _first(self, scopes: Iterable[str]) -> Found | None:
        for scope in scopes:
            route = self._routes.get(scope)
            if route is not None and route.cluster is not None:
                return Found(scope, route)
        return None

    def _note_topic(self, scope: str, *, exists: bool) -> None:
        namespace = namespace_of(scope)
        assert namespace is not None
        if exists:
            self._in_namespace.setdefault(namespace, {})[scope] = None
        elif namespace in self._in_namespace:
            self._in_namespace[namespace].pop(scope, None)
            if not self._in_namespace[namespace]:
                del self._in_namespace[namespace]


def routes_from_json(value: object) -> dict[str, Route]:
    """Parse the result of ``RouteTable.to_json``; raises ValueError, which names the scope."""
    if not isinstance(value, dict):
        message = f"{value!r:.100} is no table of routes"
        raise ValueError(message)  # noqa: TRY004 - as for every other invalid content
    found = {}
    for scope, route in value.items():
        try:
            found[parse_scope(scope)] = Route.from_json(route)
        except (ValueError, InvalidTopicNameError) as error:
            message = f"{scope:.100}: {error}"
            raise ValueError(message) from None
    return found


def _digest(scope: str, route: Route) -> int:
    text = json.dumps([scope, route.cluster, route.epoch]).encode()
    return int.from_bytes(blake2b(text, digest_size=_DIGEST_BYTES).digest(), "big")
