"""Requests of clients about topics that another cluster serves (protocol: Routes)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import RequestError, ServerError
from magnetar.broker.session.requests import check_room, start
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

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

    def made(answer: pb.BaseCommand) -> bytes:
        found = answer.lookupTopicResponse
        return _redirection(command, found.brokerServiceUrl or None, found.brokerServiceUrlTls or None)

    _ask(session, cluster, asked, _Answer(command.request_id, made, commands.lookup_failed, session.write))


def ask_partitions(session: Session, command: pb.CommandPartitionedTopicMetadata, cluster: str) -> None:
    """Answer with the number of partitions in the other cluster, which may create the topic."""
    request_id, failed = command.request_id, commands.partitioned_metadata_failed

    def made(answer: pb.BaseCommand) -> bytes:
        partitions = answer.partitionMetadataResponse.partitions
        return commands.partitioned_metadata_response(request_id=request_id, partitions=partitions)

    _ask(session, cluster, command, _Answer(request_id, made, failed, session.write))


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
    request_id = command.request_id

    def made(answer: pb.BaseCommand) -> bytes:
        return commands.encode_with_id(answer.getSchemaResponse, request_id)

    def write(frame: bytes) -> None:
        session.write_in_turn(lambda: frame)

    _ask(session, cluster, command, _Answer(request_id, made, commands.get_schema_failed, write))


class _Answer(NamedTuple):
    """How the client is answered."""

    request_id: int
    made: Callable[[pb.BaseCommand], bytes]
    """Returns the frame for the answer of the other cluster."""
    failed: Callable[..., bytes]
    """Returns the frame of a refusal."""
    write: Callable[[bytes], None]


def _ask(session: Session, cluster: str, asked: Message, to: _Answer) -> None:
    """Answer with that of the other cluster, or with the reason why there is none."""

    async def answer() -> None:
        try:
            with session.environment.lookups:
                found = await session.topics.routing.ask(cluster, asked)
        except RequestError as error:
            session.environment.limit_hits.note(error)
            frame = to.failed(request_id=to.request_id, code=error.code, message=str(error))
        else:
            frame = to.made(found)
        to.write(frame)

    check_room(session)
    start(session, to.request_id, answer())
