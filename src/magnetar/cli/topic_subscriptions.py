"""The verbs of ``magnetar topics`` for a topic's subscriptions."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from magnetar.base.names import TopicName
from magnetar.base.position import LATEST, Position
from magnetar.cli.consent import Force, Yes
from magnetar.cli.session import Session, Topic, command
from magnetar.cli.states import skips_messages, subscription_state
from magnetar.cli.topics import app
from magnetar.cli.units import position, seconds

__all__ = ["app"]

Subscription = Annotated[str, typer.Option("--subscription", "-s", help="The subscription's name.")]
ForceDeletion = Annotated[bool, typer.Option("--force", "-f", help="Do not ask, and disconnect its consumers.")]
Place = typer.Option("--messageId", "-m", parser=position, metavar="PLACE", help="earliest, latest or ledger:entry.")


@command(app, "subscriptions")
def subscriptions(session: Session, topic: Topic) -> None:
    """List a topic's subscriptions."""
    session.names(session.client.subscriptions.names(topic))


@command(app, "create-subscription")
def create_subscription(
    session: Session,
    topic: Topic,
    subscription: Subscription,
    message_id: Annotated[Position | None, Place] = None,
    replicated: Annotated[bool, typer.Option("--replicated", "-r", help="Replicate its progress.")] = False,
) -> None:
    """Create a subscription, by default at the end of the topic."""
    start = LATEST if message_id is None else message_id
    session.client.subscriptions.create(topic, subscription, start, replicated=replicated)
    after = _state(session, topic, subscription)
    session.done(f"created subscription {subscription}", topic, _field(subscription), None, after)


@command(app, "unsubscribe")
def unsubscribe(
    session: Session, topic: Topic, subscription: Subscription, force: ForceDeletion = False, yes: Yes = False
) -> None:
    """Delete a subscription."""
    before = _state(session, topic, subscription)
    if before is not None and not (force or yes):
        effects = [f"{before['backlog']:,} unacknowledged entries will not be delivered to it"]
        if before["consumers"]:
            effects.append(f"{before['consumers']} consumers are connected")
        session.require_consent(f"delete subscription {subscription} of {topic}", effects, option="--yes")
    session.client.subscriptions.delete(topic, subscription, force=force)
    session.done(f"deleted subscription {subscription}", topic, _field(subscription), before, None)


@command(app, "skip")
def skip(
    session: Session,
    topic: Topic,
    subscription: Subscription,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of entries.")],
    force: Force = False,
) -> None:
    """Acknowledge the next unacknowledged entries."""
    move = partial(session.client.subscriptions.skip, topic, subscription, count)
    _acknowledge(session, topic, subscription, f"the next {count:,} entries", move, consent=force)


@command(app, "clear-backlog")
def clear_backlog(session: Session, topic: Topic, subscription: Subscription, force: Force = False) -> None:
    """Acknowledge all entries that the topic contains now."""
    move = partial(session.client.subscriptions.skip_all, topic, subscription)
    _acknowledge(session, topic, subscription, "all entries", move, consent=force)


@command(app, "reset-cursor")
def reset_cursor(
    session: Session,
    topic: Topic,
    subscription: Subscription,
    *,
    time_ago: Annotated[
        int | None, typer.Option("--time", "-t", parser=seconds, metavar="TIME", help="Time ago: 90s, 10m, 3h, 2d.")
    ] = None,
    message_id: Annotated[Position | None, Place] = None,
    exclude_reset_position: Annotated[
        bool, typer.Option("--exclude-reset-position", "-e", help="Start after --messageId.")
    ] = False,
    force: Force = False,
) -> None:
    """Move a subscription to a time or to a message; later messages are delivered again.

    A move that passes unacknowledged messages asks for confirmation.
    """
    client = session.client
    goal: Position | int
    if message_id is not None and time_ago is None:
        goal = message_id
        move = partial(client.subscriptions.reset, topic, subscription, goal, is_excluded=exclude_reset_position)
    elif time_ago is not None and message_id is None:
        goal = int((time.time() - time_ago) * 1000)
        if goal < 0:
            message = f"{time_ago:,} s ago is before 1970"
            raise typer.BadParameter(message)
        move = partial(client.subscriptions.reset_to_time, topic, subscription, goal)
    else:
        message = "give either --time or --messageId"
        raise typer.BadParameter(message)
    before = _state(session, topic, subscription)
    skips = partial(skips_messages, client, topic, subscription, goal, is_excluded=exclude_reset_position)
    if not force and before and before["backlog"] and skips():
        effects = [f"unacknowledged entries before the goal are not delivered; the backlog is {before['backlog']:,}"]
        session.require_consent(f"move subscription {subscription} of {topic} forward", effects)
    move()
    session.changed(topic, _field(subscription), before, _state(session, topic, subscription))


@command(app, "expire-messages")
def expire_messages(
    session: Session,
    topic: Topic,
    subscription: Subscription,
    expire_time: Annotated[
        int, typer.Option("--expireTime", "-t", parser=seconds, metavar="TIME", help="Older than this: 90s, 10m, 3h.")
    ],
    force: Force = False,
) -> None:
    """Acknowledge all messages older than a time."""
    move = partial(session.client.subscriptions.expire, topic, subscription, expire_time)
    _acknowledge(session, topic, subscription, f"all messages older than {expire_time:,} s", move, consent=force)


@command(app, "peek-messages")
def peek_messages(
    session: Session,
    topic: Topic,
    subscription: Subscription,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of entries.")] = 1,
) -> None:
    """Show the next unacknowledged entries without acknowledging them."""
    session.rows(
        [
            {
                "messageId": str(entry.position),
                "publishTime": entry.publish_time,
                "messages": entry.messages,
                "properties": entry.properties,
                "payload": entry.payload.decode("utf-8", "backslashreplace"),
            }
            for entry in session.client.subscriptions.peek(topic, subscription, count)
        ]
    )


@command(app, "set-replicated-subscription-status")
def set_replicated(
    session: Session,
    topic: Topic,
    subscription: Subscription,
    enable: Annotated[bool, typer.Option("--enable/--disable", "-e/-d", help="Start or stop the replication.")],
) -> None:
    """Start or stop replicating the progress of a subscription to the other clusters."""
    subscriptions = session.client.subscriptions
    before = subscriptions.replicated(topic, subscription)
    subscriptions.set_replicated(topic, subscription, replicated=enable)
    after = subscriptions.replicated(topic, subscription)
    session.changed(topic, f"replication of subscription {subscription}", before, after)


@command(app, "get-replicated-subscription-status")
def get_replicated(session: Session, topic: Topic, subscription: Subscription) -> None:
    """Show whether the progress of a subscription is replicated to the other clusters."""
    session.fields(session.client.subscriptions.replicated(topic, subscription))


def _acknowledge(
    session: Session, topic: TopicName, subscription: str, what: str, move: Callable[[], None], *, consent: bool
) -> None:
    """Acknowledge entries for an operator, after consent."""
    before = _state(session, topic, subscription)
    if not consent and before is not None:
        effects = [f"they are not delivered to it any more; its backlog is {before['backlog']:,}"]
        session.require_consent(f"acknowledge {what} of subscription {subscription} of {topic}", effects)
    move()
    session.changed(topic, _field(subscription), before, _state(session, topic, subscription))


def _state(session: Session, topic: TopicName, subscription: str) -> dict[str, Any] | None:
    return subscription_state(session.client, topic, subscription)


def _field(subscription: str) -> str:
    return f"subscription {subscription}"
