"""Client of the admin API of a cluster of Magnetar or Apache Pulsar."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Self

from magnetar.admin.connection import TIMEOUT_SECONDS, Connection
from magnetar.admin.nouns.documents import Permissions, Placement, Properties, PulsarResources, TopicDocuments
from magnetar.admin.nouns.fences import Fences
from magnetar.admin.nouns.messages import Messages
from magnetar.admin.nouns.metadata_sync import MetadataSync
from magnetar.admin.nouns.resources import Brokers, Clusters, Namespaces, Subscriptions, Tenants, Topics
from magnetar.admin.nouns.routes import Routes
from magnetar.admin.nouns.schemas import Schemas
from magnetar.security.credentials import NONE, Credentials

if TYPE_CHECKING:
    import httpx

    from magnetar.admin.nouns.policies import Policies


class AdminClient:
    """The admin API of one cluster, by noun.

    Every method raises AdminError, with the status and reason of a refusal, or ClusterUnreachableError. Objects are
    returned as JSON with Pulsar's field names.
    """

    def __init__(
        self,
        url: str,
        *,
        credentials: Credentials = NONE,
        transport: httpx.BaseTransport | None = None,
        timeout_s: float = TIMEOUT_SECONDS,
    ) -> None:
        """Create a client of the admin URL ``http://host:port``; nothing is sent yet.

        Raises ConfigurationError if the certificates of the credentials cannot be read.
        """
        self._connection = Connection(url, transport, timeout_s, credentials)
        self.url = self._connection.url
        self.clusters = Clusters(self._connection)
        self.tenants = Tenants(self._connection)
        self.namespaces = Namespaces(self._connection)
        self.permissions = Permissions(self._connection)
        self.properties = Properties(self._connection)
        self.placement = Placement(self._connection)
        self.topic_documents = TopicDocuments(self._connection)
        self.pulsar_resources = PulsarResources(self._connection)
        self.topics = Topics(self._connection)
        self.fences = Fences(self._connection)
        self.messages = Messages(self._connection)
        self.subscriptions = Subscriptions(self._connection)
        self.schemas = Schemas(self._connection)
        self.brokers = Brokers(self._connection)
        self.metadata_sync = MetadataSync(self._connection)
        self.routes = Routes(self._connection)

    @cached_property
    def policies(self) -> Policies:
        """Policies of namespaces and topics."""
        # Tasks of Spark start often and need no policies, whose table takes a quarter of the time of their imports.
        from magnetar.admin.nouns.policies import Policies  # noqa: PLC0415

        return Policies(self._connection)

    @property
    def credentials(self) -> Credentials:
        """The identity of the client."""
        return self._connection.credentials

    def keep_changes_local(self) -> None:
        """Keep the changes of further calls in this cluster, although its metadata are synchronized with others."""
        self._connection.keep_changes_local()

    @property
    def keeps_changes_local(self) -> bool:
        """Whether the changes of calls stay in this cluster."""
        return self._connection.keeps_changes_local

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()
