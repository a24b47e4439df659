"""Requests of clients about topics that another cluster serves (protocol: Routes)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.broker.session.requests import check_room, start
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.session.session import Session


def elsewhere(session: Session, topic: TopicName) -> str | None:
    """Return the other cluster that serves the client; None if this one does.

    Links and tools of Magnetar choose the cluster themselves.
    """
    return None if session.connection.peer_is_magnetar else session.topics.routing.elsewhere(topic)


def namespace_elsewhere(session: Session, namespace: NamespaceName) -> str | None:
    """Return the other cluster that lists the topics of a namespace for the client; None if this one does."""
    return None if session.connection.peer_is_magnetar else session.topics.routing.namespace_elsewhere(namespace)


def check_route(session: Session, topic: TopicName) -> None:
    """Raise RequestError, which makes clients look up again, for a topic that another cluster serves."""
    cluster = elsewhere(session, topic)
    if cluster is not None:
        message = f"clients of {topic} are served by cluster {cluster}: look it up again"
        raise RequestError(ServerError.ServiceNotReady, message)


def redirect(session: Session, command: pb.CommandLookupTopic, cluster: str, listener: str) -> None:
    """Send the client to the other cluster, which tells its addresses for ``listener``; raises RequestError.

    A client that another cluster has sent here is not sent on: the routes of two clusters differ for a moment only.
    """
    if command.authoritative:
        message = f"cluster {cluster} serves {command.topic}, and it or another one has sent the client here"
        raise RequestError(ServerError.ServiceNotReady, message)
    found = session.topics.routing.registered(cluster)
    if listener:
        _ask_owner(session, command, cluster, listener)
    else:
        session.write(_redirection(command, found.brokerServiceUrl, found.brokerServiceUrlTls))


def _redirection(command: pb.CommandLookupTopic, url: str | None, url_tls: str | None) -> bytes:
    return commands.lookup_response(
        request_id=command.request_id, broker_service_url=url, broker_service_url_tls=url_tls, redirect=True
    )


def _ask_owner(session: Session, command: pb.CommandLookupTopic, cluster: str, listener: str) -> None:
    """Send the client to the broker that the other cluster names for its listener."""
    asked = pb.CommandLookupTopic(topic=command.topic, advertised_listener_name=listener)

    async def answer() -> None:
        request_id = command.request_id
        try:
            with session.environment.lookups:
                found = (await session.topics.routing.ask(cluster, asked)).lookupTopicResponse
        except RequestError as error:
            session.environment.limit_hits.note(error)
            frame = commands.lookup_failed(request_id=request_id, code=error.code, message=str(error))
        else:
            frame = _redirection(command, found.brokerServiceUrl or None, found.brokerServiceUrlTls or None)
        session.write(frame)

    check_room(session)
    start(session, command.request_id, answer())


def ask_partitions(session: Session, command: pb.CommandPartitionedTopicMetadata, cluster: str) -> None:
    """Answer with the number of partitions in the other cluster, which may create the topic."""

    async def answer() -> None:
        request_id = command.request_id
        try:
            with session.environment.lookups:
                found = (await session.topics.routing.ask(cluster, command)).partitionMetadataResponse
        except RequestError as error:
            session.environment.limit_hits.note(error)
            message = str(error)
            frame = commands.partitioned_metadata_failed(request_id=request_id, code=error.code, message=message)
        else:
            frame = commands.partitioned_metadata_response(request_id=request_id, partitions=found.partitions)
        session.write(frame)

    check_room(session)
    start(session, command.request_id, answer())


def ask_topics(session: Session, command: pb.CommandGetTopicsOfNamespace, cluster: str) -> None:
    """Answer with the topics of a namespace in the other cluster."""

    async def answer() -> None:
        with session.environment.lookups:
            found = (await session.topics.routing.ask(cluster, command)).getTopicsOfNamespaceResponse
        session.write_in_turn(lambda: commands.encode_with_id(found, command.request_id))

    check_room(session)
    start(session, command.request_id, answer())


def ask_schema(session: Session, command: pb.CommandGetSchema, cluster: str) -> None:
    """Answer with a schema of a topic in the other cluster."""

    async def answer() -> None:
        request_id = command.request_id
        try:
            with session.environment.lookups:
                found = (await session.topics.routing.ask(cluster, command)).getSchemaResponse
        except RequestError as error:
            session.environment.limit_hits.note(error)
            frame = commands.get_schema_failed(request_id=request_id, code=error.code, message=str(error))
        else:
            frame = commands.encode_with_id(found, request_id)
        session.write_in_turn(lambda: frame)

    check_room(session)
    start(session, command.request_id, answer())
