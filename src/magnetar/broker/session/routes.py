"""Requests of clients about topics that another cluster serves (protocol: Routes)."""

from __future__ import annotations

from functools import partial
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


def redirection(session: Session, command: pb.CommandLookupTopic, cluster: str) -> bytes:
    """Return the answer that sends the client to the other cluster; raises RequestError.

    A client that another cluster has sent here is not sent on: the routes of two clusters differ for a moment only.
    """
    if command.authoritative:
        message = f"cluster {cluster} serves {command.topic}, and it or another one has sent the client here"
        raise RequestError(ServerError.ServiceNotReady, message)
    found = session.topics.routing.registered(cluster)
    return commands.lookup_response(
        request_id=command.request_id,
        broker_service_url=found.brokerServiceUrl,
        broker_service_url_tls=found.brokerServiceUrlTls,
        redirect=True,
    )


def ask_partitions(session: Session, command: pb.CommandPartitionedTopicMetadata, cluster: str) -> None:
    """Answer with the number of partitions in the other cluster, which may create the topic."""

    async def answer() -> None:
        asked, request_id = pb.CommandPartitionedTopicMetadata(), command.request_id
        asked.CopyFrom(command)
        try:
            found = (await session.topics.routing.ask(cluster, partial(_numbered, asked))).partitionMetadataResponse
        except RequestError as error:
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
        asked, request_id = pb.CommandGetTopicsOfNamespace(), command.request_id
        asked.CopyFrom(command)
        found = (await session.topics.routing.ask(cluster, partial(_numbered, asked))).getTopicsOfNamespaceResponse
        found.request_id = request_id
        session.write_in_turn(lambda: commands.encode(found))

    check_room(session)
    start(session, command.request_id, answer())


def ask_schema(session: Session, command: pb.CommandGetSchema, cluster: str) -> None:
    """Answer with a schema of a topic in the other cluster."""

    async def answer() -> None:
        asked, request_id = pb.CommandGetSchema(), command.request_id
        asked.CopyFrom(command)
        try:
            found = (await session.topics.routing.ask(cluster, partial(_numbered, asked))).getSchemaResponse
        except RequestError as error:
            frame = commands.get_schema_failed(request_id=request_id, code=error.code, message=str(error))
        else:
            found.request_id = request_id
            frame = commands.encode(found)
        session.write_in_turn(lambda: frame)

    check_room(session)
    start(session, command.request_id, answer())


def _numbered(
    asked: pb.CommandPartitionedTopicMetadata | pb.CommandGetTopicsOfNamespace | pb.CommandGetSchema, request_id: int
) -> bytes:
    asked.request_id = request_id
    return commands.encode(asked)
