"""Commands of producers: PRODUCER, SEND, CLOSE_PRODUCER."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import RemoteProtocolError, RequestError, ServerError, StorageError
from magnetar.base.names import TopicName, check_cluster_name, check_length
from magnetar.broker.publish.access import BEYOND_NAMES
from magnetar.broker.publish.client_producer import ClientProducer
from magnetar.broker.publish.entry_sequence_ids import is_whole
from magnetar.broker.publish.interfaces import ProducerOptions
from magnetar.broker.publish.producer import answer_failed
from magnetar.broker.replication.receiver import ReplicatedProducer
from magnetar.broker.session.checks import check, checked
from magnetar.broker.session.link_runs import send_run
from magnetar.broker.session.permissions.checks import check as check_permission
from magnetar.broker.session.requests import attempt, check_room, start, start_after
from magnetar.broker.session.routes import check_route
from magnetar.broker.session.schemas import awaited_by_producer, producer_version
from magnetar.broker.settings.properties import producer_metadata
from magnetar.wire import commands, transactions
from magnetar.wire.entries.entry import parse_without_lists
from magnetar.wire.links import PROGRESS_PREFIX, REPLICATOR_PREFIX, source_of
from magnetar.wire.proto import pulsar_api_pb2 as pb
from magnetar.wire.runs import Sends

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from magnetar.base.position import Position
    from magnetar.broker.publish.interfaces import Producer, SendHead
    from magnetar.broker.session.session import Session
    from magnetar.broker.topic.interfaces import ServedTopic


_CHECKED_ONE_BY_ONE_MAX: Final = 100
"""SENDs per turn in a run with invalid SENDs; a refusal costs some 50 µs."""

_AT_ONCE_MAX: Final = 1000
"""SENDs of a run that are published at once; each with unusual metadata, such as a delay, costs some 20 µs.

A read of the socket can bring 5,000 of them.
"""

_OF_LINK_AT_ONCE_MAX: Final = 400
"""SENDs of a link that are published at once; each costs some 15 µs."""


def create(session: Session, command: pb.CommandProducer) -> None:
    """PRODUCER: admit a producer, or refuse it with the reason (protocol: Producers)."""
    existing = session.producers.get(command.producer_id)
    if existing is not None:
        _succeed(session, command.request_id, existing)
        return
    waiting = session.waiting.get(command.producer_id)
    if waiting is not None:
        _wait_for_access(session, command.request_id, waiting)
        return
    if command.producer_id in session.starting_producers:
        message = f"Producer {command.producer_id} is already being created on this connection"
        session.answer_error(command.request_id, RequestError(ServerError.ServiceNotReady, message))
        return

    def admit() -> None:
        check_room(session)
        if command.txn_enabled and not command.producer_name.startswith(REPLICATOR_PREFIX):
            raise transactions.refusal()
        _create(session, command)

    attempt(session, command.request_id, admit)


def _create(session: Session, command: pb.CommandProducer) -> None:
    check_permission(session, pb.BaseCommand.PRODUCER, command)
    topic_name, is_link = TopicName.parse(command.topic), _is_link(session, command.producer_name)
    if not is_link:
        check_route(session, topic_name)
    absence = _absence(session, topic_name, is_link=is_link)
    if absence is not None:
        _create_after(session, command, absence)
        return
    topics = session.topics.of(topic_name)
    topic = topics.linked.get_or_create(topic_name) if is_link else topics.get_or_create(topic_name)
    awaited = topic.producers.awaited(is_link=is_link) or awaited_by_producer(session, topic, command, is_link=is_link)
    if awaited is not None:
        _create_after(session, command, awaited)
        return
    options = _options(session, topic, command, is_link=is_link)
    recorded = topic.producers.prepare(options, command.initial_subscription_name)
    if recorded is not None:
        _create_after(session, command, recorded)
        return
    producer = topic.producers.make(session, options)
    if not isinstance(producer, ClientProducer):
        topic.producers.replace(producer)
        _enter(session, producer)
        _succeed(session, command.request_id, producer)
        return
    owner = topic.producers.get(options.name)
    if owner is not None and _is_predecessor(owner, producer):
        topic.producers.remove(owner)
        owner = None
    if owner is None or options.access_mode in BEYOND_NAMES:
        _admit(session, command, topic, producer)
        if owner is not None and options.access_mode == pb.WaitForExclusive:
            start(session, command.request_id, _examine(owner))
    elif owner.session is session:
        raise _busy(options.name)
    else:
        _create_after(session, command, _owner_gone(owner))


def _options(session: Session, topic: ServedTopic, command: pb.CommandProducer, *, is_link: bool) -> ProducerOptions:
    name = command.producer_name
    if topic.policies.encryption_required and not (command.encrypted or is_link):
        raise RequestError(ServerError.MetadataError, f"Encryption is required in {topic.name}")
    return ProducerOptions(
        producer_id=command.producer_id,
        name=name or session.topics.persistent.next_producer_name(),
        epoch=command.epoch,
        user_provided_name=bool(name) and command.user_provided_producer_name,
        access_mode=command.producer_access_mode,
        metadata=producer_metadata(command.metadata, session.environment.config, is_link=is_link),
        schema_version=producer_version(session, topic.name, command),
    )


def _absence(session: Session, name: TopicName, *, is_link: bool) -> Awaitable[None] | None:
    """Return the event that a producer must await before it can use the topic."""
    topics = session.topics.of(name)
    if is_link:
        return topics.linked.absence(name)
    return topics.ready(name) if topics.must_wait(name) else None


def _is_predecessor(owner: Producer, producer: Producer) -> bool:
    same = owner.session is producer.session and owner.options.producer_id == producer.options.producer_id
    return same and owner.options.epoch < producer.options.epoch


def _create_after(session: Session, command: pb.CommandProducer, event: Awaitable[object]) -> None:
    """Handle the command again after ``event``. If CLOSE_PRODUCER came first, there is nothing to do."""
    start_after(
        session,
        event,
        session.starting_producers,
        command.producer_id,
        command.request_id,
        lambda: _create(session, command),
    )


async def _examine(owner: Producer) -> None:
    """Close the connection of the owner of a name if it is dead, so that a waiting producer gets the topic."""
    await owner.session.is_alive()


async def _owner_gone(owner: Producer) -> None:
    """Return when the owner of a name is found to be dead; raise RequestError if it is alive (protocol: Liveness)."""
    if await owner.session.is_alive():
        raise _busy(owner.options.name)
    owner.topic.producers.remove(owner)


def _admit(session: Session, command: pb.CommandProducer, topic: ServedTopic, producer: ClientProducer) -> None:
    epoch = command.topic_epoch if command.HasField("topic_epoch") else None
    if topic.producers.admit(producer, epoch):
        _enter(session, producer)
        _succeed(session, command.request_id, producer)
    else:
        _wait_for_access(session, command.request_id, producer)


def _enter(session: Session, producer: Producer) -> None:
    session.producers[producer.options.producer_id] = producer
    session.closed_producers.pop(producer.options.producer_id, None)


def _busy(name: str) -> RequestError:
    return RequestError(ServerError.ProducerBusy, f"Producer with name '{name}' is already connected to topic")


def _is_link(session: Session, name: str) -> bool:
    """Return whether the name belongs to a link; raises RequestError for a name that no producer may have."""
    check_length("producer", name, session.environment.config.maxNameLength)
    if not name.startswith((REPLICATOR_PREFIX, PROGRESS_PREFIX)):
        return False
    source = source_of(name)
    check_cluster_name(source)
    if source == session.environment.cluster:
        raise RequestError(ServerError.NotAllowedError, f"{name} would replicate {source} into itself")
    return True


def _wait_for_access(session: Session, request_id: int, producer: Producer) -> None:
    """WaitForExclusive: answer now that it is queued, and again when it has the topic or cannot get it."""
    session.waiting[producer.options.producer_id] = producer
    session.write(commands.producer_waiting(request_id=request_id, producer_name=producer.options.name))

    def tell(refusal: RequestError | None) -> None:
        if session.waiting.pop(producer.options.producer_id, None) is None:
            return  # the connection is closed, and the producer is being removed
        if refusal is None:
            _enter(session, producer)
            _succeed(session, request_id, producer)
        else:
            session.answer_error(request_id, refusal)

    producer.topic.producers.access.when_decided(producer, tell)


def _succeed(session: Session, request_id: int, producer: Producer) -> None:
    """Answer a producer, after the data that the answer depends on are durable."""
    settled = producer.topic.producers.settled(producer)
    if settled is None:
        _answer_success(session, request_id, producer)
        return

    def durable(error: StorageError | None) -> None:
        if session.producers.get(producer.options.producer_id) is not producer:
            return  # the producer was closed meanwhile
        if error is None:
            _answer_success(session, request_id, producer)
        else:
            del session.producers[producer.options.producer_id]
            producer.topic.producers.remove(producer)
            session.answer_error(request_id, RequestError(ServerError.PersistenceError, str(error)))

    settled(durable)


def _answer_success(session: Session, request_id: int, producer: Producer) -> None:
    topic, name = producer.topic, producer.options.name
    last: Position | None = producer.last_origin_position if isinstance(producer, ReplicatedProducer) else None
    session.write(
        commands.producer_success(
            request_id=request_id,
            producer_name=name,
            schema_version=producer.options.schema_version,
            last_sequence_id=topic.producers.last_sequence_id(name),
            topic_epoch=topic.producers.access.topic_epoch,
            last_origin=last,
        )
    )


_FOR_LINKS = RequestError(ServerError.NotAllowedError, "a run of entries is for producers of links only")
_FOR_SHADOW_TOPICS = RequestError(ServerError.NotAllowedError, "message_id is for shadow topics only")


def send(session: Session, command: pb.CommandSend, entry: bytes) -> None:
    """A SEND of an unusual form, on its own."""
    messages = 0 if command.is_chunk and not _is_last_chunk(entry) else command.num_messages
    head = command.sequence_id, command.highest_sequence_id, messages
    producer = session.producers.get(command.producer_id)
    if isinstance(producer, ReplicatedProducer) and command.entry_sizes:
        send_run(producer, command, entry)
    elif producer is not None and command.entry_sizes:
        producer.publish_with_refusals([head], [_FOR_LINKS])
    elif producer is not None and command.HasField("message_id"):
        producer.publish_with_refusals([head], [_FOR_SHADOW_TOPICS])
    elif producer is not None and transactions.has_transaction(command):
        producer.publish_with_refusals([head], [transactions.refusal()])
    else:
        publish(session, Sends(command.producer_id, [head], [entry]), is_chunk=command.is_chunk)


def _is_last_chunk(entry: bytes) -> bool:
    try:
        return is_whole(parse_without_lists(entry))
    except RemoteProtocolError:
        return True  # it is refused in order


def publish(session: Session, sends: Sends, *, is_chunk: bool = False) -> Sends | None:
    """SENDs of one producer, or one chunk: pass on the intact entries, and the errors of the others.

    Returns the SENDs that remain for another turn.
    """
    producer_id, heads, entries = sends
    producer = session.producers.get(producer_id)
    if producer is None:
        _check_recently_closed(session, producer_id)
        return None
    count, deduplication = len(entries), producer.topic.deduplication
    at_once = count if deduplication.sequence_ids is None else deduplication.at_once(heads, entries)
    at_once = min(at_once, _OF_LINK_AT_ONCE_MAX if producer.is_link else _AT_ONCE_MAX)
    if at_once < count:
        heads, entries = heads[:at_once], entries[:at_once]
    taken = _publish(producer, heads, entries, is_chunk=is_chunk)
    return None if taken == count else Sends(producer_id, sends.heads[taken:], sends.entries[taken:])


def _publish(producer: Producer, heads: list[SendHead], entries: list[bytes], *, is_chunk: bool) -> int:
    """Publish a run, or the first part of a run with errors; return the number of handled SENDs."""
    try:
        check(producer, heads, entries, is_chunk=is_chunk)
    except StorageError as error:
        # No later SEND may be stored before these: clients reconnect and send all of them in order.
        answer_failed(producer, heads, error)
        producer.topic.producers.dismiss()
        return len(entries)
    except (RequestError, RemoteProtocolError):
        is_intact = False
    else:
        is_intact = True
    if is_intact:
        producer.publish(heads, entries)
        return len(entries)
    # Outside the except clause: errors raised from now on must not keep the first error, and with it the entries.
    heads, entries = heads[:_CHECKED_ONE_BY_ONE_MAX], entries[:_CHECKED_ONE_BY_ONE_MAX]
    producer.publish_with_refusals(heads, list(map(checked, repeat(producer), heads, entries, repeat(is_chunk))))
    return len(entries)


def _check_recently_closed(session: Session, producer_id: int) -> None:
    closed_at = session.closed_producers.get(producer_id)
    keep_alive_s = session.environment.config.keepAliveIntervalSeconds
    if closed_at is None or session.environment.clock.monotonic() - closed_at > keep_alive_s:
        message = f"SEND for producer {producer_id}, which this connection does not have"
        raise RemoteProtocolError(message)


def close(session: Session, command: pb.CommandCloseProducer) -> None:
    """CLOSE_PRODUCER: answered when earlier SENDs are durable. A pending PRODUCER is not executed any more."""
    session.starting_producers.pop(command.producer_id, None)
    producer = session.producers.pop(command.producer_id, None) or session.waiting.pop(command.producer_id, None)
    if producer is None:
        session.write(commands.success(request_id=command.request_id))
        return
    topic = producer.topic
    topic.producers.remove(producer)

    def closed() -> None:
        session.write(commands.success(request_id=command.request_id))

    topic.producers.behind_receipts(session, closed)
