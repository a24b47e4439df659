"""Schemas on their way to the target: the versions there of schemas that sources name by their own versions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.pipeline.connections.cluster import client_of
from magnetar.wire import commands
from magnetar.wire.links import link_producer
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.client.client import PulsarClient
    from magnetar.pipeline.rows import Attachment, Opening

NO_VERSION = b""
"""The version of an entry whose schema the source does not have any more."""

EXTERNAL_VERSION = b"\xff" * 8
"""The version in messages whose schema is in a registry outside of Pulsar (PIP-420)."""

VERSION_SIZE_MAX = 64
"""Bytes of a version: those of Apache Pulsar before 2.4 are the longest."""

KNOWN_MAX = 10_000
"""Versions that are remembered. Clients can write any version into their messages."""

_UNKNOWN_TO_SOURCE = (ServerError.TopicNotFound, ServerError.IncompatibleSchema)
"""Errors with which a source answers that it has no such version."""


class SchemaVersions:
    """Registers schemas at the target, each before the first entry that needs it; remembers their versions."""

    def __init__(self, opening: Opening, target: PulsarClient) -> None:
        """Register schemas in the target of ``opening`` by its client; the sources are connected as needed."""
        self._opening = opening
        self._target = target
        self._sources: dict[str, PulsarClient] = {}
        self._known: dict[tuple[int, bytes], bytes] = {}
        """By attachment and version at the source.

        A topic that was deleted and created again, at the source or at the target, gives the same versions to other
        schemas. Its links are attached again, and so are those of a cluster that lost its data.
        """

    def close(self) -> None:
        """Close the connections to the sources."""
        for source in self._sources.values():
            source.close()

    def known(self, attachment: Attachment, version: bytes) -> bytes | None:
        """Return the version at the target for a version at the source; None if ``find`` must find it first."""
        if version == EXTERNAL_VERSION:
            return version
        if not version or len(version) > VERSION_SIZE_MAX:
            return NO_VERSION
        return self._known.get((attachment.number, version))

    async def find(self, attachment: Attachment, version: bytes) -> None:
        """Make a version known; raises MagnetarError or OSError if a cluster does not answer, or refuses the schema."""
        source, topic = attachment.source, attachment.topic
        schema = await self._schema(source, topic, version)
        found = NO_VERSION if schema is None else await self._version_of(schema, source, topic)
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[attachment.number, version] = found

    async def _version_of(self, schema: pb.Schema, source: str, topic: str) -> bytes:
        """Register a schema at the target; return its version there."""
        name = link_producer(source, self._opening.target)
        request = partial(_get_or_create, topic=topic, schema=schema, producer_name=name)
        # Apache Pulsar closes the connection on a type that it does not know. Other topics must not notice.
        is_known = schema.type != pb.Schema.External
        target = self._target if is_known else self._client(self._opening.target, self._target.url)
        try:
            answer = await (await target.owner(topic)).request(request)
        finally:
            if not is_known:
                target.close()
        return answer.getOrCreateSchemaResponse.schema_version

    async def _schema(self, source: str, topic: str, version: bytes) -> pb.Schema | None:
        client = self._sources.get(source)
        if client is None:
            client = self._sources[source] = self._client(source, self._opening.source_urls[source])
        broker = await client.owner(topic)
        try:
            answer = await broker.request(partial(_get, topic=topic, schema_version=version))
        except RequestError as error:
            if error.code in _UNKNOWN_TO_SOURCE:
                return None
            raise
        return answer.getSchemaResponse.schema

    def _client(self, cluster: str, url: str) -> PulsarClient:
        return client_of(url, self._opening.client_confs.get(cluster, ""))


def _get(request_id: int, *, topic: str, schema_version: bytes) -> bytes:
    return commands.get_schema(request_id=request_id, topic=topic, schema_version=schema_version)


def _get_or_create(request_id: int, *, topic: str, schema: pb.Schema, producer_name: str) -> bytes:
    return commands.get_or_create_schema(request_id=request_id, topic=topic, schema=schema, producer_name=producer_name)
