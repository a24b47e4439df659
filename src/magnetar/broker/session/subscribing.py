"""SUBSCRIBE: admission or refusal of consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.names import PERSISTENT, TopicName, check_length
from magnetar.broker.dispatch.consumer import Consumer, ConsumerOptions, KeySharedPolicy
from magnetar.broker.dispatch.selectors import check_number_of_ranges, check_ranges
from magnetar.broker.replication.outbound.replicator import Replicator
from magnetar.broker.session.permissions.checks import check as check_permission
from magnetar.broker.session.requests import attempt, check_room, start_after
from magnetar.broker.session.routes import check_route
from magnetar.broker.session.schemas import awaited_by_consumer, is_auto_consume
from magnetar.broker.settings.properties import LINK_METADATA_SIZE_MAX, consumer_metadata
from magnetar.wire import commands
from magnetar.wire.entries.original_position import ORIGINAL_POSITION_METADATA, OriginalPositions
from magnetar.wire.links import LEASE_METADATA, REPLICATOR_PREFIX
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from magnetar.broker.resources.topic_rates import Subscriber
    from magnetar.broker.session.session import Session
    from magnetar.broker.subscription.interfaces import ClientSubscription
    from magnetar.broker.topic.interfaces import ServedTopic


def subscribe(session: Session, command: pb.CommandSubscribe) -> None:
    """Admit a consumer, or refuse it with the reason (protocol: Consumers)."""
    if command.consumer_id in session.consumers:
        session.write(commands.success(request_id=command.request_id))
        return
    if command.consumer_id in session.starting_consumers:
        error = RequestError(ServerError.ServiceNotReady, "Consumer is already being created on this connection")
        session.answer_error(command.request_id, error)
        return

    def admit() -> None:
        check_room(session)
        _subscribe(session, command)

    attempt(session, command.request_id, admit)


def _subscribe(session: Session, command: pb.CommandSubscribe) -> None:
    check_permission(session, pb.BaseCommand.SUBSCRIBE, command)
    name = TopicName.parse(command.topic)
    if not _is_link(command):
        check_route(session, name)
    topics = session.topics.of(name)
    if topics.must_wait(name):
        _subscribe_after(session, command, topics.ready(name))
        return
    topic = topics.get_or_create(name) if command.force_topic_creation else topics.get(name)
    if topic.departures:
        _subscribe_after(session, command, topic.departures.over())
        return
    if topic.is_being_recorded:
        _subscribe_after(session, command, topic.environment.recorded())
        return
    checked = awaited_by_consumer(session, topic, command)
    if checked is not None:
        _subscribe_after(session, command, checked)
        return
    options = _options(session, command)
    if not _is_link(command):
        fenced = topic.entrance.awaited(command, is_tool=session.connection.peer_is_magnetar)
        if fenced is not None:
            _subscribe_after(session, command, fenced)
            return
        topic.rates.check_subscribe(_subscriber(session, options), session.environment.clock.monotonic())
    subscription = _find(topic, command)
    if not isinstance(subscription, Replicator):
        awaited = _wait_before_admission(subscription, command, options)
        if awaited is not None:
            _subscribe_after(session, command, subscription.waiting(awaited))
            return
    _admit(session, command, options, subscription)


def _wait_before_admission(
    subscription: ClientSubscription, command: pb.CommandSubscribe, options: ConsumerOptions
) -> Awaitable[None] | None:
    """Return the event that the consumer must await; raises RequestError if it is refused."""
    conflicting = subscription.consumers.conflicting(options)
    awaited = subscription.requests.awaited(command)
    if awaited is not None:
        return awaited
    return _conflicting_gone(conflicting, options) if conflicting else None


def _options(session: Session, command: pb.CommandSubscribe) -> ConsumerOptions:
    """Return the options of a consumer; raises RequestError for invalid ones."""
    check_length("consumer", command.consumer_name, session.environment.config.maxNameLength)
    meta = command.keySharedMeta
    hash_ranges: tuple[tuple[int, int], ...] = ()
    if command.subType == pb.CommandSubscribe.Key_Shared and meta.keySharedMode == pb.STICKY:
        check_number_of_ranges(len(meta.hashRanges))
        hash_ranges = tuple((each.start, each.end) for each in meta.hashRanges)
        check_ranges(hash_ranges)
    return ConsumerOptions(
        consumer_id=command.consumer_id,
        name=command.consumer_name or session.topics.persistent.next_consumer_name(),
        type=command.subType,
        priority_level=command.priority_level,
        key_shared_policy=KeySharedPolicy(meta.keySharedMode, meta.allowOutOfOrderDelivery),
        hash_ranges=hash_ranges,
        metadata=consumer_metadata(command.metadata, session.environment.config, is_link=_is_link(command)),
        is_auto_consume=is_auto_consume(command),
        original_positions=_original_positions(session, command),
    )


def _original_positions(session: Session, command: pb.CommandSubscribe) -> OriginalPositions | None:
    """Return what adds the property that a consumer asks for, None if it does not; raises RequestError."""
    asked = next((each.value for each in command.metadata if each.key == ORIGINAL_POSITION_METADATA), "false")
    if asked == "false":
        return None
    if asked != "true":
        message = f"{ORIGINAL_POSITION_METADATA} is {asked!r}\nhint: it is true or false"
        raise RequestError(ServerError.MetadataError, message)
    if TopicName.parse(command.topic).domain != PERSISTENT:
        message = f"{ORIGINAL_POSITION_METADATA}: messages of non-persistent topics have no positions"
        raise RequestError(ServerError.NotAllowedError, message)
    return OriginalPositions(session.environment.cluster, session.environment.config.maxMessageSize)


def _subscribe_after(session: Session, command: pb.CommandSubscribe, event: Awaitable[object]) -> None:
    """Handle the command again after ``event``. If CLOSE_CONSUMER came first, it was answered already."""
    start_after(
        session,
        event,
        session.starting_consumers,
        command.consumer_id,
        command.request_id,
        lambda: _subscribe(session, command),
    )


async def _conflicting_gone(conflicting: Sequence[Consumer], options: ConsumerOptions) -> None:
    """Return when conflicting consumers are gone; raise RequestError if they are alive (protocol: Liveness)."""
    for consumer in conflicting:
        subscription = consumer.subscription
        if await consumer.session.is_alive():
            await subscription.topic.departures.over()
            subscription.check_can_add(options)


def _admit(
    session: Session,
    command: pb.CommandSubscribe,
    options: ConsumerOptions,
    subscription: ClientSubscription | Replicator,
) -> None:
    subscription.check_can_add(options)
    if not isinstance(subscription, Replicator):
        session.environment.objects.check()
    consumer = Consumer(subscription, session, options, now=session.environment.clock.now())
    if command.HasField("consumer_epoch"):
        consumer.epoch = command.consumer_epoch
    if isinstance(subscription, Replicator):
        subscription.check_takeover(consumer)
    else:
        now = session.environment.clock.monotonic()
        subscription.topic.rates.subscribed(_subscriber(session, options), now)
    session.consumers[command.consumer_id] = consumer
    session.write(commands.success(request_id=command.request_id))
    subscription.add_consumer(consumer)


def _subscriber(session: Session, options: ConsumerOptions) -> Subscriber:
    return session.address.rpartition(":")[0], options.name, options.consumer_id


def _find(topic: ServedTopic, command: pb.CommandSubscribe) -> ClientSubscription | Replicator:
    """Return the subscription or link, create a subscription if that is allowed; raises RequestError if refused."""
    if _is_link(command):
        return topic.replicators.to(command.subscription.removeprefix(REPLICATOR_PREFIX))
    return topic.entrance.find(command)


def _is_link(command: pb.CommandSubscribe) -> bool:
    """Return whether the command attaches the pipeline to a link."""
    is_named_so = command.subscription.startswith(REPLICATOR_PREFIX)
    if not is_named_so or len(command.metadata) > LINK_METADATA_SIZE_MAX:
        return False
    return any(each.key == LEASE_METADATA for each in command.metadata)
