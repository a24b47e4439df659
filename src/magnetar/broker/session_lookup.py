"""Commands that ask where and what a topic is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c
import re2  # a stranger's pattern must not hold the loop: its time is linear in the name

from magnetar.base.errors import ServerError
from magnetar.base.limits import Limit
from magnetar.base.names import NamespaceName
from magnetar.broker.refusals import REFUSED, as_request_error
from magnetar.broker.topics import parse_topic
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.broker.session import Session

TOPICS_PATTERN_LENGTH_MAX = 50
"""Characters of a pattern that the broker applies itself (``subscriptionPatternMaxLength``)."""


_PATTERN_OPTIONS = re2.Options()
_PATTERN_OPTIONS.log_errors = False


def partitioned_metadata(session: Session, command: pb.CommandPartitionedTopicMetadata) -> None:
    """Answer how many partitions a topic has, creating it where that is allowed and asked for."""
    try:
        partitions = session.topics.partitions_for_client(
            parse_topic(command.topic), create=command.metadata_auto_creation_enabled
        )
    except REFUSED as error:
        refusal = as_request_error(error)
        session.environment.limit_hits.note(refusal)
        session.write(
            commands.partitioned_metadata_failed(request_id=command.request_id, code=refusal.code, message=str(refusal))
        )
    else:
        session.write(commands.partitioned_metadata_response(request_id=command.request_id, partitions=partitions))


def lookup(session: Session, command: pb.CommandLookupTopic) -> None:
    """Answer that this broker serves the topic; a cluster has one."""
    try:
        topic = parse_topic(command.topic)
        session.topics.check_served(topic)
        session.topics.check_length(topic)
    except REFUSED as error:
        refusal = as_request_error(error)
        session.environment.limit_hits.note(refusal)
        session.write(commands.lookup_failed(request_id=command.request_id, code=refusal.code, message=str(refusal)))
    else:
        session.write(
            commands.lookup_response(request_id=command.request_id, broker_service_url=session.topics.service_url)
        )


def topics_of_namespace(session: Session, command: pb.CommandGetTopicsOfNamespace) -> None:
    """Answer the namespace's topics, partitions as topics of their own (protocol, 2.7)."""
    namespace = NamespaceName.parse(command.namespace)
    if len(command.topics_pattern) > TOPICS_PATTERN_LENGTH_MAX:
        session.environment.limit_hits.hit(Limit.TOPICS_PATTERN_LENGTH)
    topics, pattern = session.environment.resources.topics, _compiled(command.topics_pattern)
    if command.mode == pb.CommandGetTopicsOfNamespace.NON_PERSISTENT:
        names = []
    elif pattern is None:
        names = topics.texts_of_namespace(namespace)
    else:
        names = [str(topic) for topic in topics.of_namespace(namespace) if pattern.fullmatch(_pattern_subject(topic))]
    topics_hash = google_crc32c.value(",".join(names).encode()).to_bytes(4, "little").hex()
    changed = command.topics_hash != topics_hash
    session.write(
        commands.get_topics_of_namespace_response(
            request_id=command.request_id,
            topics=names if changed else [],
            filtered=pattern is not None,
            topics_hash=topics_hash,
            changed=changed,
        )
    )


def _compiled(pattern: str) -> re2.Pattern | None:
    """The pattern to apply here; None leaves it to the client: none was sent, or RE2 cannot have it in bounds."""
    if not 0 < len(pattern) <= TOPICS_PATTERN_LENGTH_MAX:
        return None
    try:
        return re2.compile(pattern, _PATTERN_OPTIONS)
    except re2.error:
        return None


def _pattern_subject(topic: TopicName) -> str:
    """What a pattern is matched against: ``tenant/namespace/topic``, a partition by its topic's name."""
    return str(topic.partitioned_topic).partition("://")[2]


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
