"""Commands of existing consumers: FLOW, ACK, redelivery, SEEK and others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import structlog

from magnetar.base.errors import RemoteProtocolError, RequestError, ServerError, StorageError
from magnetar.broker.replication.outbound.replicator import Replicator
from magnetar.broker.replication.trims import when_trims_are_stored
from magnetar.broker.session.refusals import REFUSED, as_request_error
from magnetar.broker.session.requests import check_room, start
from magnetar.wire import commands, transactions
from magnetar.wire.message_id import message_id, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.session.refusals import Refused
    from magnetar.broker.session.session import Session
    from magnetar.broker.subscription.interfaces import ClientSubscription
    from magnetar.wire.long_lists import LongList
    from magnetar.wire.runs import Acks

log = structlog.get_logger(__name__)

_TRACKED = (pb.CommandSubscribe.Shared, pb.CommandSubscribe.Key_Shared)
"""Types of subscriptions that track which consumer holds which entry."""


def flow(session: Session, command: pb.CommandFlow) -> None:
    """FLOW: more permits. An unknown consumer is ignored, as in Pulsar."""
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None:
        return
    if command.messagePermits == 0:
        message = "FLOW with 0 permits"
        raise RemoteProtocolError(message)
    consumer.permits += command.messagePermits
    consumer.last_flow_at = session.environment.clock.now()
    if consumer.at_first_flow is not None:
        consumer.at_first_flow()
    consumer.subscription.dispatch()


def acknowledge(session: Session, acks: Acks) -> None:
    """ACKs of single entries without a request for an answer."""
    consumer = session.consumers.get(acks.consumer_id)
    if consumer is not None:
        consumer.subscription.acknowledge_entries(consumer, acks.ledger_id, acks.entry_ids)


def ack(session: Session, command: pb.CommandAck) -> None:
    """ACK: acknowledge; a requested answer is sent when it is durable. An unknown consumer is ignored."""
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None:
        return
    if transactions.has_transaction(command):
        log.warning("transactional_ack_refused", address=session.address, consumer=consumer.name)
        _refuse_ack(session, command, transactions.refusal())
        return

    def done(error: StorageError | None) -> None:
        if error is not None:
            _refuse_ack(session, command, RequestError(ServerError.PersistenceError, str(error)))
        elif command.HasField("request_id"):
            session.write(commands.ack_response(consumer_id=command.consumer_id, request_id=command.request_id))

    try:
        consumer.subscription.acknowledge(consumer, command, done)
    except StorageError as error:
        done(error)
        raise


def next_part(session: Session, command: LongList) -> pb.BaseCommand | None:
    """Return a command with the next message ids of a long list; None if there are none in this part.

    Only the last part of an ACK requests an answer: it is sent when all parts are durable.
    """
    if command.head.type == pb.BaseCommand.ACK:
        return _next_ack(command)
    head = command.head.redeliverUnacknowledgedMessages
    consumer = session.consumers.get(head.consumer_id)
    if consumer is None or consumer.type not in _TRACKED:  # other types redeliver all messages
        command.drop()
        return command.head
    message_ids = command.take()
    if not message_ids:
        return None
    part = pb.BaseCommand(type=command.head.type, redeliverUnacknowledgedMessages=head)
    part.redeliverUnacknowledgedMessages.message_ids.extend(message_ids)
    return part


def _next_ack(command: LongList) -> pb.BaseCommand:
    if transactions.has_transaction(command.head.ack):
        command.drop()
        return command.head
    message_ids = command.take()
    if command.head.ack.ack_type == pb.CommandAck.Cumulative and not command.is_over:
        command.drop()
        return command.head  # several ids have no effect
    part = pb.BaseCommand(type=pb.BaseCommand.ACK, ack=command.head.ack)
    part.ack.message_id.extend(message_ids)
    if not command.is_over:
        part.ack.ClearField("request_id")
    return part


def _refuse_ack(session: Session, command: pb.CommandAck, error: RequestError) -> None:
    """Answer an ACK that was not applied, if it requests an answer."""
    if command.HasField("request_id"):
        session.write(
            commands.ack_response_failed(
                consumer_id=command.consumer_id, request_id=command.request_id, code=error.code, message=str(error)
            )
        )


def redeliver(session: Session, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
    """REDELIVER_UNACKNOWLEDGED_MESSAGES."""
    consumer = session.consumers.get(command.consumer_id)
    subscription = subscription_of(consumer)
    if consumer is not None and subscription is not None:
        subscription.requests.redeliver(consumer, command)


def subscription_of(consumer: Consumer | None) -> ClientSubscription | None:
    """Return the subscription of a consumer; None for a link, and for an unknown consumer."""
    if consumer is None or isinstance(consumer.subscription, Replicator):
        return None
    return cast("ClientSubscription", consumer.subscription)


def unsubscribe(session: Session, command: pb.CommandUnsubscribe) -> None:
    """UNSUBSCRIBE: delete the subscription, if the caller is its only consumer or sets ``force``.

    The answer follows when the deletion is durable. If it fails, the client subscribes again.
    """
    consumer = session.consumers.get(command.consumer_id)
    subscription = subscription_of(consumer)
    if consumer is None or subscription is None:
        session.answer_error(command.request_id, RequestError(ServerError.MetadataError, "Consumer not found"))
        return
    if len(subscription.consumers) > 1 and not command.force:
        message = "Unconnected or shared consumer attempting to unsubscribe"
        session.answer_error(command.request_id, RequestError(ServerError.MetadataError, message))
        return
    check_room(session)
    kept = subscription.requests.kept()
    if kept is not None:
        start(session, command.request_id, _unsubscribe_after(session, command, kept))
        return
    session.consumers.pop(command.consumer_id)
    subscription.remove_consumer(consumer)
    deleted = partial(_unsubscribed, session, command)
    try:
        subscription.requests.unsubscribe(deleted)
    except REFUSED as error:
        deleted(error)


async def _unsubscribe_after(session: Session, command: pb.CommandUnsubscribe, event: Awaitable[None]) -> None:
    await event
    unsubscribe(session, command)


def _unsubscribed(session: Session, command: pb.CommandUnsubscribe, error: Refused | None) -> None:
    if error is None:
        session.write(commands.success(request_id=command.request_id))
        return
    session.answer_error(command.request_id, as_request_error(error))
    if command.consumer_id not in session.consumers:  # the client's consumer is open again, and was removed here
        session.write(commands.close_consumer(consumer_id=command.consumer_id))


def seek(session: Session, command: pb.CommandSeek) -> None:
    """SEEK: by id or by time."""
    check_room(session)
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None:
        session.answer_error(command.request_id, RequestError(ServerError.MetadataError, "Consumer not found"))
        return
    if isinstance(consumer.subscription, Replicator):
        _seek_on_link(session, command, consumer, consumer.subscription)
        return
    subscription = subscription_of(consumer)
    if subscription is None or not (command.HasField("message_id") or command.HasField("message_publish_time")):
        message = "Message id and message publish time were not present"
        session.answer_error(command.request_id, RequestError(ServerError.MetadataError, message))
        return
    start(session, command.request_id, _seek(session, command, subscription))


def _seek_on_link(session: Session, command: pb.CommandSeek, holder: Consumer, link: Replicator) -> None:
    """Let a link continue where its target ends, as soon as the trims of the topic are durable."""

    def stored(error: StorageError | None) -> None:
        if error is not None:
            session.answer_error(command.request_id, as_request_error(error))
        elif link.consumer is holder:
            _seek_on_link(session, command, holder, link)
        else:
            message = f"link to {link.target} has another holder"
            session.answer_error(command.request_id, RequestError(ServerError.ServiceNotReady, message))

    if link.topic.ledger.is_trim_unstored:
        when_trims_are_stored(link.topic, stored)
        return
    link.send_again_after(position_of(command.message_id), command.origin_cluster)
    session.write(commands.success(request_id=command.request_id))
    link.dispatch()


async def _seek(session: Session, command: pb.CommandSeek, subscription: ClientSubscription) -> None:
    await subscription.requests.seek(command, session.seek_turn)
    session.write(commands.success(request_id=command.request_id))


def get_last_message_id(session: Session, command: pb.CommandGetLastMessageId) -> None:
    """GET_LAST_MESSAGE_ID: the newest durable entry, and the mark-delete position of the subscription."""
    check_room(session)
    subscription = subscription_of(session.consumers.get(command.consumer_id))
    if subscription is None:
        session.answer_error(command.request_id, RequestError(ServerError.MetadataError, "Consumer not found"))
        return
    start(session, command.request_id, _last_message_id(session, command.request_id, subscription))


async def _last_message_id(session: Session, request_id: int, subscription: ClientSubscription) -> None:
    position, batch_size, mark_delete = await subscription.requests.last_message()
    session.write(
        commands.get_last_message_id_response(
            request_id=request_id,
            last_message_id=message_id(
                position,
                partition=subscription.topic.name.partition_index,
                batch_index=batch_size - 1 if batch_size is not None else -1,
            ),
            mark_delete_position=mark_delete,
        )
    )


def consumer_stats(session: Session, command: pb.CommandConsumerStats) -> None:
    """CONSUMER_STATS."""
    consumer = session.consumers.get(command.consumer_id)
    subscription = subscription_of(consumer)
    if consumer is None or subscription is None:
        body = pb.CommandConsumerStatsResponse(
            request_id=command.request_id,
            error_code=pb.ServerError.ConsumerNotFound,
            error_message=f"Consumer {command.consumer_id} not found",
        )
        session.write(commands.consumer_stats_response(body))
        return
    body = pb.CommandConsumerStatsResponse(
        request_id=command.request_id,
        consumerName=consumer.name,
        availablePermits=max(0, consumer.permits),
        unackedMessages=consumer.unacked_messages,
        blockedConsumerOnUnackedMsgs=consumer.blocked,
        address=session.address,
        type=subscription.consumers.type_name,
        msgBacklog=subscription.requests.backlog,
    )
    session.write(commands.consumer_stats_response(body))


def close(session: Session, command: pb.CommandCloseConsumer) -> None:
    """CLOSE_CONSUMER: always answered, also for an unknown consumer."""
    session.starting_consumers.pop(command.consumer_id, None)
    consumer = session.consumers.pop(command.consumer_id, None)
    if consumer is None:
        session.write(commands.success(request_id=command.request_id))
        return
    consumer.subscription.remove_consumer(consumer)
    answer: Callable[[StorageError | None], None] = lambda _: session.write(  # noqa: E731 - one line, used once
        commands.success(request_id=command.request_id)
    )
    subscription = subscription_of(consumer)
    if subscription is None:
        answer(None)
    else:
        subscription.requests.when_closed(answer)
