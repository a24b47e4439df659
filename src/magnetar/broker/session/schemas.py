"""Schemas of producers and consumers, GET_SCHEMA and GET_OR_CREATE_SCHEMA (protocol: Schemas)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    InvalidTopicNameError,
    RequestError,
    ServerError,
)
from magnetar.base.names import TopicName
from magnetar.broker.session.refusals import REFUSED, as_request_error
from magnetar.broker.session.requests import check_room, start
from magnetar.broker.session.routes import ask_schema, elsewhere
from magnetar.schema.info import ABSENT_TYPES, SchemaInfo, SchemaType, version_from_bytes, version_to_bytes
from magnetar.wire import commands
from magnetar.wire.links import REPLICATOR_PREFIX
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from magnetar.base.errors import StorageError
    from magnetar.broker.session.session import Session
    from magnetar.broker.topic.interfaces import ServedTopic

NO_VERSION: Final = b""
"""The version of messages without a schema."""


def awaited_by_producer(
    session: Session, topic: ServedTopic, command: pb.CommandProducer, *, is_link: bool
) -> Awaitable[object] | None:
    """Return the registration that a producer must await, None if its schema is known or it has none.

    Raises RequestError for a producer without a schema, if the topic requires one.
    """
    schema = _schema_of(command.schema) if command.HasField("schema") else None
    registry, name = session.environment.schemas, topic.name
    if schema is None:
        # A link must bring all entries, also those that were published without a schema.
        if not is_link and topic.policies.schema_validation_enforced and registry.has_schema(name):
            raise _schema_required()
        return None
    if registry.known(name, schema) is not None:
        return None
    return registry.register(name, schema, topic.policies, session.schema_turn)


def producer_version(session: Session, topic: TopicName, command: pb.CommandProducer) -> bytes:
    """Return the version of the registered schema of a producer."""
    schema = _schema_of(command.schema) if command.HasField("schema") else None
    number = session.environment.schemas.known(topic, schema) if schema is not None else None
    return NO_VERSION if number is None else version_to_bytes(number)


def awaited_by_consumer(session: Session, topic: ServedTopic, command: pb.CommandSubscribe) -> Awaitable[object] | None:
    """Return the check that a consumer must await, None if its schema is compatible or it has none.

    The first schema of a topic without producers, consumers and entries is registered.
    """
    schema = _schema_of(command.schema) if command.HasField("schema") else None
    if schema is None or is_auto_consume(command):
        return None
    registry, name = session.environment.schemas, topic.name
    strategy, turn = topic.policies.schema_compatibility_strategy, session.schema_turn
    if not registry.has_schema(name) and topic.entrance.is_idle:
        return registry.register(name, schema, topic.policies, turn)
    if registry.admits_consumer(name, schema, strategy):
        return None
    return registry.check_consumer(name, schema, strategy, turn)


def is_auto_consume(command: pb.CommandSubscribe) -> bool:
    """Return whether a consumer accepts any schema of the topic."""
    return command.HasField("schema") and command.schema.type == pb.Schema.AutoConsume


def get_schema(session: Session, command: pb.CommandGetSchema) -> None:
    """GET_SCHEMA: answer with one version, or with the latest."""
    cluster = None
    with suppress(InvalidTopicNameError):  # it is refused below
        cluster = elsewhere(session, TopicName.parse(command.topic))
    if cluster is not None:
        ask_schema(session, command, cluster)
        return

    def durable(error: StorageError | None) -> None:
        session.write_in_turn(lambda: _schema_answer(session, command, error))

    # A version that is not durable yet may be given to another schema after a crash.
    session.environment.metadata.barrier(durable)


def _schema_answer(session: Session, command: pb.CommandGetSchema, error: StorageError | None) -> bytes:
    """Build the answer; a schema may be as large as its limit, and its request has few bytes."""
    try:
        if error is not None:
            raise error
        return _found_schema(session, command)
    except REFUSED as refused:
        refusal = as_request_error(refused)
        return commands.get_schema_failed(request_id=command.request_id, code=refusal.code, message=str(refusal))


def _found_schema(session: Session, command: pb.CommandGetSchema) -> bytes:
    registry, topic = session.environment.schemas, TopicName.parse(command.topic)
    if not command.HasField("schema_version"):
        found = registry.latest(topic)
    elif command.schema_version == NO_VERSION:
        # The Go client asks so for messages of a producer with its BytesSchema.
        return _schema_response(command, topic, SchemaInfo(SchemaType.NONE), NO_VERSION)
    else:
        number = version_from_bytes(command.schema_version)
        if number is None:
            message = "Invalid schema version"
            raise IncompatibleSchemaError(message)
        found = registry.version(topic, number)
    if found is None:
        raise RequestError(ServerError.TopicNotFound, "Topic not found or no-schema")
    return _schema_response(command, topic, found.info, version_to_bytes(found.number))


def _schema_response(command: pb.CommandGetSchema, topic: TopicName, info: SchemaInfo, version: bytes) -> bytes:
    whole = topic.partitioned_topic
    schema = pb.Schema(
        name=f"{whole.namespace_name}/{whole.local_name}",
        schema_data=info.data,
        type=_wire_type(info.type),
        properties=commands.key_values(info.properties),
    )
    return commands.get_schema_response(request_id=command.request_id, schema=schema, schema_version=version)


def get_or_create_schema(session: Session, command: pb.CommandGetOrCreateSchema) -> None:
    """GET_OR_CREATE_SCHEMA: answer with the version of a schema of an existing topic; register it if it is new."""
    check_room(session)
    start(session, command.request_id, _get_or_create(session, command))


async def _get_or_create(session: Session, command: pb.CommandGetOrCreateSchema) -> None:
    try:
        version = await _version_of(session, command)
    except REFUSED as error:
        refusal = as_request_error(error)
        session.environment.limit_hits.note(refusal)
        session.write(
            commands.get_or_create_schema_failed(request_id=command.request_id, code=refusal.code, message=str(refusal))
        )
    else:
        session.write(commands.get_or_create_schema_response(request_id=command.request_id, schema_version=version))


async def _version_of(session: Session, command: pb.CommandGetOrCreateSchema) -> bytes:
    topic = TopicName.parse(command.topic)
    registry, policies = session.environment.schemas, session.environment.policies.of(topic)
    if session.topics.of(topic).partitions_of(topic) is None:
        raise RequestError(ServerError.TopicNotFound, f"Topic {topic} not found")
    if command.producerName.startswith(REPLICATOR_PREFIX):
        # Links bring what other clusters have accepted. A clash is refused nevertheless.
        policies = replace(policies, schema_auto_update=True, schema_validation_enforced=False)
    schema = _schema_of(command.schema)
    if schema is not None:
        return version_to_bytes(await registry.register(topic, schema, policies, session.schema_turn))
    if policies.schema_validation_enforced and registry.has_schema(topic):
        raise _schema_required()
    return NO_VERSION


def _schema_required() -> IncompatibleSchemaError:
    return IncompatibleSchemaError("Producers cannot connect or send message without a schema to topics with a schema")


_CLIENT_TYPES: Final = {pb.Schema.AutoConsume: SchemaType.AUTO_CONSUME}


def _wire_type(kind: SchemaType) -> pb.Schema.Type.ValueType:
    """Return the number of the type of a stored schema on the wire, which is the same."""
    return pb.Schema.Type.Value(pb.Schema.Type.Name(kind))  # type: ignore[arg-type]


def _schema_of(sent: pb.Schema) -> SchemaInfo | None:
    """Return the schema of a client, None for a type without a schema."""
    try:
        kind = _CLIENT_TYPES.get(sent.type) or SchemaType(sent.type)
    except ValueError:
        message = f"Unknown schema type : {pb.Schema.Type.Name(sent.type)}"
        raise InvalidSchemaError(message) from None
    if kind in ABSENT_TYPES:
        return None
    return SchemaInfo(kind, sent.schema_data, {each.key: each.value for each in sent.properties})
