"""All routes of Apache Pulsar's admin API v2 and v3 in groups, and the status of each in Magnetar."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import TYPE_CHECKING

from magnetar.admin.pulsar_api import cluster_paths, function_paths, namespace_paths, topic_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from magnetar.admin.exchange import AdminRoute

NEVER = "Magnetar has no functions, connectors, packages, bookies and proxies"
"""Refusal of routes that Magnetar will never have."""

_PARAMETER = re.compile(r"\{[^}]*\}")


class Status(Enum):
    """Status of a route of Apache Pulsar; the value is its title in the compatibility matrix."""

    SERVED = "implemented"
    STORED = "stored without effect"
    NOT_YET = "not built yet"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Group:
    """Routes with a common beginning."""

    title: str
    root: str
    paths: str
    """A line for each path: its methods, then the part after ``root``."""
    is_never: bool = False

    def routes(self) -> Iterator[PulsarRoute]:
        """Yield the routes in the order of the table."""
        for line in filter(None, self.paths.splitlines()):
            words = line.split()
            methods = list(takewhile(str.isupper, words))
            path = "/".join([self.root, *words[len(methods) :]])
            for method in methods:
                yield PulsarRoute(method, path, self)


@dataclass(frozen=True, slots=True)
class PulsarRoute:
    """One method of one path of Apache Pulsar."""

    method: str
    path: str
    group: Group

    @property
    def name(self) -> tuple[str, str]:
        """Method and path."""
        return self.method, self.path

    @property
    def key(self) -> tuple[str, str]:
        """Method and path, without the names of parameters."""
        return self.method, shape(self.path)

    @property
    def refusal(self) -> str:
        """Reason for which the route is refused if Magnetar does not serve it."""
        if self.group.is_never:
            return NEVER
        literals = _PARAMETER.sub("", self.path.removeprefix(self.group.root)).split("/")
        return f"Magnetar does not support {'/'.join(filter(None, literals)) or self.method} of {self.group.title} yet"

    def status(self, served: Mapping[tuple[str, str], AdminRoute]) -> Status:
        """Return the status, given the routes of handlers by key."""
        found = served.get(self.key)
        if found is not None:
            return Status.STORED if found.is_without_effect else Status.SERVED
        return Status.NEVER if self.group.is_never else Status.NOT_YET


GROUPS = (
    Group("clusters", "/admin/v2/clusters", cluster_paths.CLUSTERS),
    Group("tenants", "/admin/v2/tenants", cluster_paths.TENANTS),
    Group("namespaces", "/admin/v2/namespaces", namespace_paths.NAMESPACES),
    Group("groups of namespaces", "/admin/namespaces", cluster_paths.ANTI_AFFINITY),
    Group("topics", "/admin/v2/persistent", topic_paths.TOPICS),
    Group("non-persistent topics", "/admin/v2/non-persistent", topic_paths.TOPICS),
    Group("schemas", "/admin/v2/schemas", cluster_paths.SCHEMAS),
    Group("brokers", "/admin/v2/brokers", cluster_paths.BROKERS),
    Group("broker statistics", "/admin/v2/broker-stats", cluster_paths.BROKER_STATS),
    Group("lookups", "/lookup/v2/topic", cluster_paths.LOOKUP),
    Group("resource quotas", "/admin/v2/resource-quotas", cluster_paths.RESOURCE_QUOTAS),
    Group("resource groups", "/admin/v2/resourcegroups", cluster_paths.RESOURCE_GROUPS),
    Group("transactions", "/admin/v3/transactions", cluster_paths.TRANSACTIONS),
    Group("messages in requests", "/topics", cluster_paths.PRODUCE),
    Group("bookies", "/admin/v2/bookies", cluster_paths.BOOKIES, is_never=True),
    Group("statistics of proxies", "/admin/v2/proxy-stats", cluster_paths.PROXY_STATS, is_never=True),
    Group("connections of proxies", "/proxy-stats", cluster_paths.OF_PROXIES, is_never=True),
    Group("functions", "/admin/v3/functions", function_paths.FUNCTIONS, is_never=True),
    Group("functions, version 2", "/admin/v2/functions", function_paths.FUNCTIONS_V2, is_never=True),
    Group("sinks", "/admin/v3/sinks", function_paths.SINKS, is_never=True),
    Group("sinks, old name", "/admin/v3/sink", function_paths.SINKS, is_never=True),
    Group("sources", "/admin/v3/sources", function_paths.SOURCES, is_never=True),
    Group("sources, old name", "/admin/v3/source", function_paths.SOURCES, is_never=True),
    Group("workers of functions", "/admin/v2/worker", function_paths.WORKER, is_never=True),
    Group("statistics of workers", "/admin/v2/worker-stats", function_paths.WORKER_STATS, is_never=True),
    Group("packages", "/admin/v3/packages", function_paths.PACKAGES, is_never=True),
)


def shape(path: str) -> str:
    """Return a path without the names and types of its parameters."""
    return _PARAMETER.sub("{}", path)


def by_key(routes: Iterable[AdminRoute]) -> dict[tuple[str, str], AdminRoute]:
    """Return routes of handlers by method and shape of the path."""
    return {(method, shape(route.path)): route for route in routes for method in route.methods}


def specificity(path: str) -> tuple[tuple[bool, str], ...]:
    """Return the sort key of a path, so that a fixed part comes before a parameter in the same place."""
    return tuple((part.startswith("{"), "" if part.startswith("{") else part) for part in path.split("/"))
