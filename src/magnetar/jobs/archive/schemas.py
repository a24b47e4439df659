"""Schemas of archived messages: the definitions are kept in the archive, and registered where it is restored."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from magnetar.base.errors import RequestError, ServerError
from magnetar.jobs.archive.contents import partition_of
from magnetar.jobs.connecting import options_of
from magnetar.spark import columns
from magnetar.spark.connecting import pulsar_client
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from magnetar.client.client import PulsarClient
    from magnetar.jobs.archive.contents import Definitions
    from magnetar.pipeline.options import ClusterAddress

_EXTERNAL = b"\xff" * 8
"""The version in messages whose schema is in a registry outside of Pulsar (PIP-420)."""

_VERSION_SIZE_MAX = 64
"""Bytes of a version. Clients can write any bytes into their messages."""

_UNKNOWN = (ServerError.TopicNotFound, ServerError.IncompatibleSchema)
"""Errors with which a broker answers that it has no such version."""

_PRODUCER = "restore"
"""Name of the producer for which a schema is registered."""


def versions_in(files: Iterable[Path]) -> dict[str, set[bytes]]:
    """Return the versions of schemas that messages in ``topic=…/day=…/file`` name, by topic."""
    found: dict[str, set[bytes]] = {}
    for path in files:
        topic, _ = partition_of(path)
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=[columns.SCHEMA_VERSION]):
                found.setdefault(topic, set()).update(batch.column(0).unique().drop_null().to_pylist())
    return {topic: versions for topic, versions in found.items() if versions}


def fetched(cluster: ClusterAddress, wanted: Mapping[str, Iterable[bytes]]) -> Definitions:
    """Return the schemas by topic and version, as Pulsar's protocol carries them; empty for one that is unknown.

    Raises as PulsarClient, and ConfigurationError if the credentials cannot be read.
    """
    return asyncio.run(_fetched(cluster, wanted)) if wanted else {}


async def _fetched(cluster: ClusterAddress, wanted: Mapping[str, Iterable[bytes]]) -> Definitions:
    found: dict[str, dict[bytes, bytes]] = {}
    async with pulsar_client(options_of(cluster)) as client:
        for topic, versions in wanted.items():
            for version in sorted(versions):
                found.setdefault(topic, {})[version] = await _definition(client, topic, version)
    return found


async def _definition(client: PulsarClient, topic: str, version: bytes) -> bytes:
    if version == _EXTERNAL or not 0 < len(version) <= _VERSION_SIZE_MAX:
        return b""
    broker = await client.owner(topic)
    try:
        answer = await broker.request(partial(_get, topic=topic, version=version))
    except RequestError as error:
        if error.code in _UNKNOWN:
            return b""
        raise
    return answer.getSchemaResponse.schema.SerializeToString()


def registered(
    cluster: ClusterAddress,
    wanted: Iterable[tuple[str, bytes | None]],
    definitions: Mapping[str, Mapping[bytes, bytes]],
) -> dict[tuple[str, bytes], bytes]:
    """Register the schemas of archived messages; return their versions at the targets.

    ``wanted`` are targets and archived versions, ``definitions`` the schemas by target and archived version. A version
    without a definition has no counterpart. Raises RequestError for a schema that a target refuses.
    """
    known = [(target, version) for target, version in wanted if version is not None]
    found = {(target, version): version for target, version in known if version == _EXTERNAL}
    missing = {
        (target, version): definitions[target][version]
        for target, version in known
        if definitions.get(target, {}).get(version)
    }
    return found | (asyncio.run(_registered(cluster, missing)) if missing else {})


async def _registered(
    cluster: ClusterAddress, missing: Mapping[tuple[str, bytes], bytes]
) -> dict[tuple[str, bytes], bytes]:
    found = {}
    async with pulsar_client(options_of(cluster)) as client:
        for (target, version), definition in sorted(missing.items()):
            request = partial(_get_or_create, topic=target, schema=pb.Schema.FromString(definition))
            answer = await (await client.owner(target)).request(request)
            found[target, version] = answer.getOrCreateSchemaResponse.schema_version
    return found


def _get(request_id: int, *, topic: str, version: bytes) -> bytes:
    return commands.get_schema(request_id=request_id, topic=topic, schema_version=version)


def _get_or_create(request_id: int, *, topic: str, schema: pb.Schema) -> bytes:
    return commands.get_or_create_schema(request_id=request_id, topic=topic, schema=schema, producer_name=_PRODUCER)
