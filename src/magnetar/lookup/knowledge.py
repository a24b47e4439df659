"""The routes and addresses that a lookup service has heard of. Pure.

It hears of them from several brokers, in any order. Of two routes for a scope the later epoch counts. The address of a
cluster is what a broker of that cluster says, otherwise what any other one says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from magnetar.base.errors import RequestError, ServerError
from magnetar.metadata.policies import ClusterData
from magnetar.metadata.routes.table import RouteTable, routes_from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.metadata.routes.atlas import Atlas


class Knowledge:
    """All that one instance knows."""

    def __init__(self, default_cluster: str | None = None) -> None:
        """Begin without routes; ``default_cluster`` serves topics without one."""
        self.table = RouteTable()
        self._default = default_cluster
        self._addresses: dict[str, ClusterData] = {}
        self._told_by_itself: dict[str, None] = {}
        """Clusters whose own brokers have told their address."""

    @property
    def is_known(self) -> bool:
        """Whether it has heard of any cluster."""
        return bool(self._addresses)

    def learn(self, atlas: Atlas) -> bool:
        """Take over what is newer in the statement of a broker; return whether anything is."""
        is_news = bool(self.table.merge(routes_from_json(atlas.routes)))
        for name, addresses in atlas.clusters.items():
            if name == atlas.cluster:
                is_news = is_news or name not in self._told_by_itself
                self._told_by_itself[name] = None
            elif name in self._told_by_itself:
                continue
            is_news = is_news or self._addresses.get(name) != addresses
            self._addresses[name] = addresses
        return is_news

    def cluster_of(self, topic: TopicName) -> str:
        """Return the cluster that serves a topic; raises RequestError if no route says so."""
        found = self.table.find(topic)
        return found.cluster if found is not None else self._default_for(str(topic))

    def clusters_of(self, namespace: NamespaceName) -> dict[str, None]:
        """Return the clusters that serve topics of a namespace; raises RequestError if no route says so."""
        topics = self.table.topics_in(namespace)
        found = {route.cluster: None for route in topics.values() if route.cluster is not None}
        of_namespace = self.table.find_for_namespace(namespace)
        if of_namespace is not None:
            return {of_namespace.cluster: None} | found
        return ({self._default: None} if self._default else {}) | found or {self._default_for(str(namespace)): None}

    def addresses(self, cluster: str) -> ClusterData:
        """Return the addresses of a cluster; raises RequestError if no broker has told them."""
        found = self._addresses.get(cluster)
        if found is None:
            message = f"no broker has told the address of cluster {cluster}, to which a route leads"
            raise RequestError(ServerError.ServiceNotReady, message)
        return found

    def _default_for(self, what: str) -> str:
        if self._default is None:
            message = f"there is no route for {what}, and the lookup service has no default cluster"
            raise RequestError(ServerError.ServiceNotReady, message)
        return self._default

    def to_json(self) -> dict[str, Any]:
        """Return what it has heard as JSON."""
        return {
            "routes": self.table.to_json(),
            "clusters": {name: found.to_json() for name, found in sorted(self._addresses.items())},
            "toldByItself": sorted(self._told_by_itself),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], default_cluster: str | None = None) -> Self:
        """Parse the result of ``to_json``; raises ValueError, KeyError or TypeError if it is damaged."""
        found = cls(default_cluster)
        found.table.merge(routes_from_json(value["routes"]))
        found._addresses = {name: ClusterData.model_validate(each) for name, each in value["clusters"].items()}
        found._told_by_itself = dict.fromkeys(value["toldByItself"])
        return found
