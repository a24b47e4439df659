"""SUBSCRIBE: admission or refusal of consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.names import check_length
from magnetar.base.position import EARLIEST, LATEST
from magnetar.broker.dispatch.consumer import Consumer, ConsumerOptions, KeySharedPolicy
from magnetar.broker.dispatch.selectors import check_number_of_ranges, check_ranges
from magnetar.broker.replication.outbound.replicator import Replicator
from magnetar.broker.session.requests import attempt, check_room, start_after
from magnetar.broker.session.schemas import awaited_by_consumer, is_auto_consume
from magnetar.broker.settings.properties import LINK_METADATA_SIZE_MAX, consumer_metadata, subscription_properties
from magnetar.broker.subscription.names import check_subscription_name
from magnetar.broker.subscription.subscription import Subscription
from magnetar.broker.topic.admission import check_room_for_subscription, may_create_subscription
from magnetar.broker.topic.registry import parse_topic
from magnetar.wire import commands
from magnetar.wire.links import LEASE_METADATA, REPLICATOR_PREFIX
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from magnetar.base.position import Position
    from magnetar.broker.resources.topic_rates import Subscriber
    from magnetar.broker.session.session import Session
    from magnetar.broker.topic.topic import Topic

log = structlog.get_logger(__name__)


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
    name = parse_topic(command.topic)
    if session.topics.must_wait(name):
        _subscribe_after(session, command, session.topics.ready(name))
        return
    topic = session.topics.get_or_create(name) if command.force_topic_creation else session.topics.get(name)
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
        topic.rates.check_subscribe(_subscriber(session, options), session.environment.clock.monotonic())
    subscription = _find(topic, command)
    if isinstance(subscription, Subscription):
        awaited = _wait_before_admission(subscription, command, options)
        if awaited is not None:
            _subscribe_after(session, command, subscription.waiting(awaited))
            return
    _admit(session, command, options, subscription)


def _wait_before_admission(
    subscription: Subscription, command: pb.CommandSubscribe, options: ConsumerOptions
) -> Awaitable[None] | None:
    """Return the event that the consumer must await; raises RequestError if it is refused."""
    conflicting = subscription.consumers.conflicting(options)
    if subscription.resets:
        return subscription.resets.over()
    if _begins_to_replicate(subscription, command) or subscription.cursor.is_being_recorded:
        # SUCCESS confirms that the subscription exists, and that it is replicated: both must survive a crash.
        return subscription.flushes.durable()
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
        name=command.consumer_name or session.topics.next_consumer_name(),
        type=command.subType,
        priority_level=command.priority_level,
        key_shared_policy=KeySharedPolicy(meta.keySharedMode, meta.allowOutOfOrderDelivery),
        hash_ranges=hash_ranges,
        metadata=consumer_metadata(command.metadata, session.environment.config, is_link=_is_link(command)),
        is_auto_consume=is_auto_consume(command),
    )


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
        if await consumer.session.is_alive() and isinstance(subscription, Subscription):
            await subscription.topic.departures.over()
            subscription.check_can_add(options)


def _admit(
    session: Session, command: pb.CommandSubscribe, options: ConsumerOptions, subscription: Subscription | Replicator
) -> None:
    subscription.check_can_add(options)
    if isinstance(subscription, Subscription):
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


def _find(topic: Topic, command: pb.CommandSubscribe) -> Subscription | Replicator:
    """Return the subscription, create it if that is allowed; raises RequestError if it is refused."""
    if _is_link(command):
        return topic.replicators.to(command.subscription.removeprefix(REPLICATOR_PREFIX))
    _check_request(topic, command)
    existing = topic.subscriptions.get(command.subscription)
    if existing is not None:
        if existing.is_durable != command.durable:
            kind = "durable" if existing.is_durable else "non-durable"
            message = f"Subscription {existing.name} exists as a {kind} one"
            raise RequestError(ServerError.NotAllowedError, message)
        subscription = existing
    else:
        if command.durable and not may_create_subscription(topic):
            message = f"Subscription {command.subscription} does not exist and may not be created automatically"
            raise RequestError(ServerError.SubscriptionNotFound, message)
        check_length("subscription", command.subscription, topic.environment.config.maxNameLength)
        properties = subscription_properties(command.subscription_properties, topic.environment.config)
        check_room_for_subscription(topic)
        subscription = topic.create_subscription(
            command.subscription, _start(topic, command), durable=command.durable, properties=properties
        )
    return subscription


def _is_link(command: pb.CommandSubscribe) -> bool:
    """Return whether the command attaches the pipeline to a link."""
    is_named_so = command.subscription.startswith(REPLICATOR_PREFIX)
    if not is_named_so or len(command.metadata) > LINK_METADATA_SIZE_MAX:
        return False
    return any(each.key == LEASE_METADATA for each in command.metadata)


def _begins_to_replicate(subscription: Subscription, command: pb.CommandSubscribe) -> bool:
    """Start replicating the subscription, if that is requested, allowed and not done yet."""
    topic, is_wanted = subscription.topic, command.replicate_subscription_state and subscription.is_durable
    if not is_wanted or subscription.is_replicated:
        return False
    if topic.replication_forbidden:
        reason = topic.replication_forbidden
        log.warning("not_replicated", topic=str(topic.name), subscription=subscription.name, reason=reason)
        return False
    topic.set_replicated(subscription, replicated=True)
    return True


def _check_request(topic: Topic, command: pb.CommandSubscribe) -> None:
    check_subscription_name(command.subscription)
    kind = pb.CommandSubscribe.SubType.Name(command.subType)
    if kind not in topic.policies.subscription_types:
        raise RequestError(ServerError.NotAllowedError, f"Topic[{{{topic.name}}}] doesn't support {kind} sub type!")
    is_key_shared = command.subType == pb.CommandSubscribe.Key_Shared
    if is_key_shared and not topic.environment.config.subscriptionKeySharedEnable:
        raise RequestError(ServerError.NotAllowedError, "Key_Shared subscription is disabled by broker.")
    if command.read_compacted and command.durable:
        # A table view reads so too, by a non-durable subscription: every message of a key includes the latest one.
        message = (
            "readCompacted is not supported by this broker: topics are not compacted. Subscribe without it, or use a"
            " reader or a table view"
        )
        raise RequestError(ServerError.NotAllowedError, message)
    if command.start_message_rollback_duration_sec:
        message = "start_message_rollback_duration_sec is not supported by this broker: seek by time instead"
        raise RequestError(ServerError.NotAllowedError, message)


def _start(topic: Topic, command: pb.CommandSubscribe) -> Position:
    """Return the mark-delete position of a new subscription."""
    if command.HasField("start_message_id") and not command.durable:
        start = position_of(command.start_message_id)
        if start == EARLIEST:
            return topic.log.before_first()
        if start < LATEST and start <= topic.ledger.last_confirmed_entry:
            return topic.ledger.previous_position(start)
    if command.initialPosition == pb.CommandSubscribe.Earliest:
        return topic.log.before_first()
    return topic.ledger.last_confirmed_entry


# -- commands of an existing consumer -----------------------------------------------------------------------------
