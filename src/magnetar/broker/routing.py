"""The routes as the broker applies them: topics whose clients another cluster serves, and questions to that cluster.

Routes concern clients only. Links, progress and the tools of Magnetar use a topic in each cluster that has it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.broker.settings.peers import peer_address
from magnetar.client.client import PulsarClient
from magnetar.metadata.policies import ClusterData
from magnetar.metadata.routes.followed import FollowedRoutes
from magnetar.wire import commands

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.environment import Environment
    from magnetar.client.options import PeerAddress
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class Routing:
    """Decides which clients another cluster serves. Used on the event loop's thread."""

    def __init__(self, environment: Environment) -> None:
        """Follow the routes in the metadata of ``environment``."""
        self._resources = environment.resources
        self._cluster = environment.cluster
        self.followed = FollowedRoutes(environment.resources, environment.cluster)
        self._config = environment.config
        self._clients: dict[str, tuple[PeerAddress, PulsarClient]] = {}
        """Clients of other clusters, by cluster, for questions."""

    def stop(self) -> None:
        """Close the connections to other clusters."""
        self.followed.stop()
        for _, client in self._clients.values():
            client.close()

    def elsewhere(self, topic: TopicName) -> str | None:
        """Return the other cluster that serves the clients of a topic; None if this one does."""
        found = self.followed.table.find(topic)
        return None if found is None or found.cluster == self._cluster else found.cluster

    def namespace_elsewhere(self, namespace: NamespaceName) -> str | None:
        """Return the other cluster that serves the clients of a namespace's topics without a route of their own."""
        found = self.followed.table.find_for_namespace(namespace)
        return None if found is None or found.cluster == self._cluster else found.cluster

    def addresses(self, cluster: str) -> ClusterData:
        """Return the addresses of a cluster; those that are not registered are None."""
        return self._resources.clusters.get(cluster) or ClusterData()

    def registered(self, cluster: str) -> ClusterData:
        """Return the addresses of a cluster for clients; raises RequestError if none is registered."""
        found = self.addresses(cluster)
        if not (found.brokerServiceUrl or found.brokerServiceUrlTls):
            message = f"a route leads to cluster {cluster}, whose brokerServiceUrl is not registered in {self._cluster}"
            raise RequestError(ServerError.ServiceNotReady, message)
        return found

    def _address(self, cluster: str) -> PeerAddress:
        """Return the address of a cluster for this broker; raises RequestError if it is not registered."""
        found = peer_address(self._config, self.registered(cluster))
        if found is None:
            message = f"a route leads to cluster {cluster}, whose brokerServiceUrlTls is not registered"
            raise RequestError(ServerError.ServiceNotReady, message)
        return found

    async def ask(self, cluster: str, asked: Message) -> pb.BaseCommand:
        """Return the answer of another cluster to a command with the body ``asked``, whose request id is replaced.

        Raises RequestError, with ServiceNotReady if the cluster does not answer.
        """
        address, known = self._address(cluster), self._clients.get(cluster)
        if known is None or known[0] != address:
            if known is not None:
                known[1].close()
            known = self._clients[cluster] = address, PulsarClient(address.url, address.options)
        client = known[1]
        try:
            return await (await client.connect()).request(partial(commands.encode_with_id, asked))
        except RequestError:
            raise
        except (OSError, MagnetarError) as error:
            message = f"cluster {cluster} serves the clients, and does not answer: {error}"
            raise RequestError(ServerError.ServiceNotReady, message) from error
