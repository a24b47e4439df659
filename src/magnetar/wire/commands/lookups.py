"""Partition metadata, topic lookup, topic lists, watches of links, and schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.errors import ServerError

from magnetar.wire.commands.encoding import code_of, encode


def partitioned_metadata(*, topic: str, request_id: int, metadata_auto_creation_enabled: bool = True) -> bytes:
    """Build PARTITIONED_METADATA: request a topic's number of partitions."""
    body = pb.CommandPartitionedTopicMetadata(
        topic=topic,
        request_id=request_id,
        metadata_auto_creation_enabled=metadata_auto_creation_enabled,
    )
    return encode(body)


def partitioned_metadata_response(*, request_id: int, partitions: int) -> bytes:
    """Build the reply to PARTITIONED_METADATA; 0 partitions for a topic that is not partitioned."""
    body = pb.CommandPartitionedTopicMetadataResponse(
        request_id=request_id,
        partitions=partitions,
        response=pb.CommandPartitionedTopicMetadataResponse.Success,
    )
    return encode(body)


def partitioned_metadata_failed(*, request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse PARTITIONED_METADATA."""
    body = pb.CommandPartitionedTopicMetadataResponse(
        request_id=request_id,
        response=pb.CommandPartitionedTopicMetadataResponse.Failed,
        error=code_of(code),
        message=message,
    )
    return encode(body)


def lookup(*, topic: str, request_id: int, authoritative: bool = False) -> bytes:
    """Build LOOKUP: request the broker that owns a topic."""
    return encode(pb.CommandLookupTopic(topic=topic, request_id=request_id, authoritative=authoritative))


def lookup_response(
    *,
    request_id: int,
    broker_service_url: str | None,
    broker_service_url_tls: str | None = None,
    redirect: bool = False,
    authoritative: bool = True,
) -> bytes:
    """Build the reply to LOOKUP: the topic's owner or, with ``redirect``, the next broker to ask."""
    kind = pb.CommandLookupTopicResponse.Redirect if redirect else pb.CommandLookupTopicResponse.Connect
    body = pb.CommandLookupTopicResponse(
        request_id=request_id,
        brokerServiceUrl=broker_service_url,
        brokerServiceUrlTls=broker_service_url_tls,
        response=kind,
        authoritative=authoritative,
    )
    return encode(body)


def lookup_failed(*, request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse LOOKUP."""
    body = pb.CommandLookupTopicResponse(
        request_id=request_id,
        response=pb.CommandLookupTopicResponse.Failed,
        error=code_of(code),
        message=message,
    )
    return encode(body)


def get_topics_of_namespace(
    *,
    request_id: int,
    namespace: str,
    mode: pb.CommandGetTopicsOfNamespace.Mode.ValueType = pb.CommandGetTopicsOfNamespace.PERSISTENT,
    topics_hash: str | None = None,
) -> bytes:
    """Build GET_TOPICS_OF_NAMESPACE: request the full names of all topics, partitions included.

    The broker returns no names if its hash of them equals ``topics_hash``.
    """
    body = pb.CommandGetTopicsOfNamespace(
        request_id=request_id,
        namespace=namespace,
        mode=mode,
        topics_hash=topics_hash,
    )
    return encode(body)


def get_topics_of_namespace_response(
    *,
    request_id: int,
    topics: Iterable[str],
    topics_hash: str,
    filtered: bool = False,
    changed: bool = True,
) -> bytes:
    """Build the reply to GET_TOPICS_OF_NAMESPACE; no names and not ``changed`` if the client's hash is up to date."""
    body = pb.CommandGetTopicsOfNamespaceResponse(
        request_id=request_id,
        topics=topics,
        topics_hash=topics_hash,
        filtered=filtered,
        changed=changed,
    )
    return encode(body)


def get_schema(*, request_id: int, topic: str, schema_version: bytes) -> bytes:
    """Build GET_SCHEMA: request one version of a topic's schema."""
    return encode(pb.CommandGetSchema(request_id=request_id, topic=topic, schema_version=schema_version))


def get_or_create_schema(*, request_id: int, topic: str, schema: pb.Schema, producer_name: str) -> bytes:
    """Build GET_OR_CREATE_SCHEMA: request the version of a schema, which is registered if it is new."""
    body = pb.CommandGetOrCreateSchema(request_id=request_id, topic=topic, schema=schema, producerName=producer_name)
    return encode(body)


def get_schema_response(*, request_id: int, schema: pb.Schema, schema_version: bytes) -> bytes:
    """Build the reply to GET_SCHEMA."""
    return encode(pb.CommandGetSchemaResponse(request_id=request_id, schema=schema, schema_version=schema_version))


def get_schema_failed(*, request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse GET_SCHEMA; TopicNotFound means that the topic has no schema."""
    return encode(pb.CommandGetSchemaResponse(request_id=request_id, error_code=code_of(code), error_message=message))


def get_or_create_schema_response(*, request_id: int, schema_version: bytes) -> bytes:
    """Build the reply to GET_OR_CREATE_SCHEMA; the version is empty if the client says that there is no schema."""
    return encode(pb.CommandGetOrCreateSchemaResponse(request_id=request_id, schema_version=schema_version))


def get_or_create_schema_failed(*, request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse GET_OR_CREATE_SCHEMA."""
    body = pb.CommandGetOrCreateSchemaResponse(request_id=request_id, error_code=code_of(code), error_message=message)
    return encode(body)
