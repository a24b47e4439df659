"""Commands about topics: partitions, lookup, lists, watches of links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.base.memory_share import SMALL_BYTES
from magnetar.base.names import NamespaceName, TopicName
from magnetar.broker.session.refusals import REFUSED, as_request_error
from magnetar.broker.session.routes import ask_partitions, ask_topics, elsewhere, namespace_elsewhere, redirect
from magnetar.broker.topic.topic_lists import PATTERN_LENGTH_MAX
from magnetar.wire import commands
from magnetar.wire.topic_list import topic_list_response
from magnetar.wire.transactions import COORDINATORS

if TYPE_CHECKING:
    from magnetar.base.errors import StorageError
    from magnetar.broker.session.refusals import Refused
    from magnetar.broker.session.session import Session
    from magnetar.broker.topic.topic_lists import TopicList
    from magnetar.metadata.policies import ClusterData
    from magnetar.wire.proto import pulsar_api_pb2 as pb

LISTENER_SHOWN_MAX = 100
"""Maximum number of characters of a listener's name in a refusal."""


def partitioned_metadata(session: Session, command: pb.CommandPartitionedTopicMetadata) -> None:
    """Answer with the number of partitions; create the topic if that is allowed and requested.

    There are 0 coordinators of transactions: clients tell their application that transactions are not enabled.
    """
    try:
        name = TopicName.parse(command.topic)
        cluster = None if name == COORDINATORS else elsewhere(session, name)
        if cluster is not None:
            ask_partitions(session, command, cluster)
            return
        create = command.metadata_auto_creation_enabled
        topics = session.topics.of(name)
        session.environment.lookups.check()  # before anything is created
        partitions = 0 if name == COORDINATORS else topics.partitions_for_client(name, create=create)
    except REFUSED as error:
        _fail_partitioned_metadata(session, command, error)
        return
    session.environment.lookups.begin()

    def durable(error: StorageError | None) -> None:
        session.environment.lookups.end()
        if error is not None:
            _fail_partitioned_metadata(session, command, error)
        else:
            session.write(commands.partitioned_metadata_response(request_id=command.request_id, partitions=partitions))

    session.environment.metadata.barrier(durable)


def _fail_partitioned_metadata(session: Session, command: pb.CommandPartitionedTopicMetadata, error: Refused) -> None:
    refusal = _refusal(session, error)
    session.write(
        commands.partitioned_metadata_failed(request_id=command.request_id, code=refusal.code, message=str(refusal))
    )


def lookup(session: Session, command: pb.CommandLookupTopic) -> None:
    """Answer that this broker serves the topic, since a cluster has one broker, or name the cluster that serves it."""
    try:
        name = TopicName.parse(command.topic)
        cluster = None if name == COORDINATORS else elsewhere(session, name)
        listener = command.advertised_listener_name.strip() or session.listener
        if cluster is not None:
            redirect(session, command, cluster, listener)
            return
        topics = session.topics.of(name)
        if name != COORDINATORS:
            topics.check_served(name)
        topics.check_length(name)
        addresses = _addresses(session, listener)
    except REFUSED as error:
        refusal = _refusal(session, error)
        session.write(commands.lookup_failed(request_id=command.request_id, code=refusal.code, message=str(refusal)))
    else:
        session.write(
            commands.lookup_response(
                request_id=command.request_id,
                broker_service_url=addresses.brokerServiceUrl,
                broker_service_url_tls=addresses.brokerServiceUrlTls,
            )
        )


def _addresses(session: Session, listener: str) -> ClusterData:
    """Return the addresses of this broker for a listener; raises RequestError if it has none of this name."""
    found = session.topics.persistent.addresses.of(listener)
    if found is None:
        # The C++ client compares this text, and does not try again.
        message = f"the broker do not have {listener[:LISTENER_SHOWN_MAX]} listener"
        raise RequestError(ServerError.ServiceNotReady, message)
    return found


def _refusal(session: Session, error: Refused) -> RequestError:
    """Return the answer for ``error``, and count the limit that it names."""
    refusal = as_request_error(error)
    session.environment.limit_hits.note(refusal)
    return refusal


def topics_of_namespace(session: Session, command: pb.CommandGetTopicsOfNamespace) -> None:
    """Answer with the topics of a namespace, including partitions (protocol: Topics of a namespace)."""
    namespace = NamespaceName.parse(command.namespace)
    cluster = namespace_elsewhere(session, namespace)
    if cluster is not None:
        ask_topics(session, command, cluster)
        return
    if len(command.topics_pattern) > PATTERN_LENGTH_MAX:
        session.environment.limit_hits.hit(Limit.TOPICS_PATTERN_LENGTH)

    def answer(found: TopicList) -> None:
        session.write_in_turn(lambda: _topic_list(session, command, found))

    # The pipeline carries all topics, also those of which Apache Pulsar's own replicator brought events.
    is_pipeline = session.connection.peer_is_magnetar
    session.topics.find_names(namespace, command.mode, command.topics_pattern, answer, with_system_topics=is_pipeline)


def _topic_list(session: Session, command: pb.CommandGetTopicsOfNamespace, found: TopicList) -> bytes:
    """Return the answer with a list, or the refusal of a large one while clients leave too much unread."""
    changed = command.topics_hash != found.hash
    encoded, sending = found.encoded if changed else b"", session.environment.memory.sending
    if len(encoded) > SMALL_BYTES and sending.used > sending.limit // 2:
        limit = Limit.SEND_BUFFERS
        session.environment.limit_hits.hit(limit)
        message = f"Clients leave too many answers unread; try again later ({limit})"
        return commands.error(request_id=command.request_id, code=ServerError.ServiceNotReady, message=message)
    return topic_list_response(
        request_id=command.request_id,
        encoded_topics=encoded,
        filtered=found.filtered,
        topics_hash=found.hash,
        changed=changed,
    )
