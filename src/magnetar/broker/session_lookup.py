"""Commands that ask where and what a topic is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.names import NamespaceName
from magnetar.broker.topics import parse_topic
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.broker.session import Session

TOPICS_PATTERN_LENGTH_MAX = 50
"""Characters of a pattern that the broker applies itself (``subscriptionPatternMaxLength``)."""


def partitioned_metadata(session: Session, command: pb.CommandPartitionedTopicMetadata) -> None:
    """Answer how many partitions a topic has, creating it where that is allowed and asked for."""
    try:
        partitions = session.topics.partitions_for_client(
            parse_topic(command.topic), create=command.metadata_auto_creation_enabled
        )
    except RequestError as error:
        session.write(
            commands.partitioned_metadata_failed(request_id=command.request_id, code=error.code, message=str(error))
        )
    else:
        session.write(commands.partitioned_metadata_response(request_id=command.request_id, partitions=partitions))


def lookup(session: Session, command: pb.CommandLookupTopic) -> None:
    """Answer that this broker serves the topic; a cluster has one."""
    try:
        session.topics.check_served(parse_topic(command.topic))
    except RequestError as error:
        session.write(commands.lookup_failed(request_id=command.request_id, code=error.code, message=str(error)))
    else:
        session.write(
            commands.lookup_response(request_id=command.request_id, broker_service_url=session.topics.service_url)
        )


def topics_of_namespace(session: Session, command: pb.CommandGetTopicsOfNamespace) -> None:
    """Answer the namespace's topics, partitions as topics of their own (protocol, 2.7)."""
    try:
        namespace = NamespaceName.parse(command.namespace)
        topics = (
            [] if command.mode == pb.CommandGetTopicsOfNamespace.NON_PERSISTENT else session.topics.names(namespace)
        )
    except RequestError as error:
        session.answer_error(command.request_id, error)
        return
    names = sorted(map(str, topics))
    topics_hash = f"{google_crc32c.value(','.join(names).encode()):x}"
    changed = command.topics_hash != topics_hash
    session.write(
        commands.get_topics_of_namespace_response(
            request_id=command.request_id,
            topics=names if changed else [],
            topics_hash=topics_hash,
            changed=changed,
        )
    )


def get_schema(session: Session, command: pb.CommandGetSchema) -> None:
    """Answer that the topic has no schema: this broker keeps none and passes payloads through."""
    session.write(
        commands.get_schema_failed(
            request_id=command.request_id,
            code=ServerError.TopicNotFound,
            message=f"no schema is stored for {command.topic}",
        )
    )


def get_or_create_schema(session: Session, command: pb.CommandGetOrCreateSchema) -> None:
    """Accept the schema without keeping it: the empty version means "none" (protocol, 2.11)."""
    session.write(commands.get_or_create_schema_response(request_id=command.request_id, schema_version=b""))
