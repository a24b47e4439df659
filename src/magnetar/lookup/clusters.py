"""Connections to the brokers of all clusters, with the credentials of the clients that ask."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from magnetar import __version__
from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.client.client import PulsarClient
from magnetar.client.options import LOOKUP_REDIRECTS_MAX, ClientOptions
from magnetar.client.replies import too_many_redirects
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from magnetar.client.connection import PulsarConnection
    from magnetar.lookup.knowledge import Knowledge
    from magnetar.lookup.options import LookupOptions

VERSION = f"Magnetar {__version__}"
"""Version of the service as a client. Brokers answer it from their own cluster, and do not redirect it."""


class Caller(NamedTuple):
    """What a client proves of itself, and whether its connection is encrypted; brokers hear the same."""

    method: str = ""
    """``auth_method_name`` of CONNECT; empty: none."""
    data: bytes = b""
    """``auth_data`` of CONNECT."""
    is_encrypted: bool = False


@dataclass(frozen=True, slots=True)
class _Passed:
    """See Authentication: the proof of a client, as it was received."""

    caller: Caller

    @property
    def method(self) -> str:
        return self.caller.method

    def data(self) -> bytes:
        return self.caller.data

    def authorization(self) -> None:
        """Return None: it is used on binary connections only."""


class Clusters:
    """Asks the brokers of clusters. Used on the event loop's thread."""

    def __init__(self, knowledge: Knowledge, options: LookupOptions) -> None:
        """Ask the clusters of ``knowledge``; nothing is opened yet."""
        self._knowledge = knowledge
        self._options = options
        self._clients: dict[tuple[str, Caller], PulsarClient] = {}
        """By URL and caller, the ones used last at the end."""

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    async def ask(self, cluster: str, caller: Caller, asked: Message) -> pb.BaseCommand:
        """Return the answer of a cluster to a command with the body ``asked``, whose request id is replaced.

        Raises RequestError, with ServiceNotReady if the cluster does not answer.
        """
        try:
            broker = await self._client(cluster, caller).connect()
            return await broker.request(partial(commands.encode_with_id, asked))
        except RequestError:
            raise
        except (OSError, MagnetarError) as error:
            raise _silent(cluster, error) from error

    async def owner(self, cluster: str, caller: Caller, asked: pb.CommandLookupTopic) -> pb.CommandLookupTopicResponse:
        """Return the answer of a cluster that names the owner of a topic; follows redirects. Raises as ``ask``."""
        client, authoritative = self._client(cluster, caller), False
        try:
            broker = await client.connect()
            for _ in range(1 + LOOKUP_REDIRECTS_MAX):
                found = await _look_up(broker, asked, authoritative=authoritative)
                if found.response == pb.CommandLookupTopicResponse.Connect:
                    return found
                url = found.brokerServiceUrlTls if caller.is_encrypted else found.brokerServiceUrl
                broker, authoritative = await client.connect(url), found.authoritative
        except RequestError:
            raise
        except (OSError, MagnetarError) as error:
            raise _silent(cluster, error) from error
        raise too_many_redirects(asked.topic, LOOKUP_REDIRECTS_MAX)

    def _client(self, cluster: str, caller: Caller) -> PulsarClient:
        addresses = self._knowledge.addresses(cluster)
        url = addresses.brokerServiceUrlTls if caller.is_encrypted else addresses.brokerServiceUrl
        url = url or (None if caller.method else addresses.brokerServiceUrl)
        if not url:
            kind = "brokerServiceUrlTls" if caller.is_encrypted else "brokerServiceUrl"
            message = f"cluster {cluster} has no {kind}, which clients with this connection need"
            raise RequestError(ServerError.ServiceNotReady, message)
        key = (url, caller)
        client = self._clients.pop(key, None) or PulsarClient(url, self._client_options(caller))
        self._clients[key] = client
        if len(self._clients) > self._options.identities_max:
            oldest = next(iter(self._clients))
            self._clients.pop(oldest).close()
        return client

    def _client_options(self, caller: Caller) -> ClientOptions:
        trusting = self._options.credentials
        credentials = trusting.presenting(_Passed(caller)) if caller.method else trusting.anonymous()
        return ClientOptions(
            client_version=VERSION,
            connect_timeout_s=self._options.answer_timeout_s,
            request_timeout_s=self._options.answer_timeout_s,
            credentials=credentials,
        )


async def _look_up(
    broker: PulsarConnection, asked: pb.CommandLookupTopic, *, authoritative: bool
) -> pb.CommandLookupTopicResponse:
    def build(request_id: int) -> bytes:
        body = pb.CommandLookupTopic(
            topic=asked.topic,
            request_id=request_id,
            authoritative=authoritative,
            advertised_listener_name=asked.advertised_listener_name or None,
        )
        return commands.encode(body)

    return (await broker.request(build)).lookupTopicResponse


def _silent(cluster: str, error: Exception) -> RequestError:
    return RequestError(ServerError.ServiceNotReady, f"cluster {cluster} does not answer: {error}")
