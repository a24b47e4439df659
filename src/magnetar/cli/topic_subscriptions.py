"""The verbs of ``magnetar topics`` for a topic's subscriptions."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from magnetar.base.position import LATEST, Position
from magnetar.cli.output import say
from magnetar.cli.session import Session, Topic, command
from magnetar.cli.topics import app
from magnetar.cli.units import position, seconds

__all__ = ["app"]

Subscription = Annotated[str, typer.Option("--subscription", "-s", help="The subscription's name.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Disconnect its consumers.")]
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
    say(f"created subscription {subscription}")


@command(app, "unsubscribe")
def unsubscribe(session: Session, topic: Topic, subscription: Subscription, force: Force = False) -> None:
    """Delete a subscription."""
    session.client.subscriptions.delete(topic, subscription, force=force)
    say(f"deleted subscription {subscription}")


@command(app, "skip")
def skip(
    session: Session,
    topic: Topic,
    subscription: Subscription,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of entries.")],
) -> None:
    """Acknowledge the next unacknowledged entries."""
    session.client.subscriptions.skip(topic, subscription, count)
    say(f"skipped {count} of {subscription}")


@command(app, "clear-backlog")
def clear_backlog(session: Session, topic: Topic, subscription: Subscription) -> None:
    """Acknowledge all entries that the topic contains now."""
    session.client.subscriptions.skip_all(topic, subscription)
    say(f"cleared the backlog of {subscription}")


@command(app, "reset-cursor")
def reset_cursor(
    session: Session,
    topic: Topic,
    subscription: Subscription,
    time_ago: Annotated[
        int | None, typer.Option("--time", "-t", parser=seconds, metavar="TIME", help="Time ago: 90s, 10m, 3h, 2d.")
    ] = None,
    message_id: Annotated[Position | None, Place] = None,
    exclude_reset_position: Annotated[
        bool, typer.Option("--exclude-reset-position", "-e", help="Start after --messageId.")
    ] = False,
) -> None:
    """Move a subscription to a time or to a message; later messages are delivered again."""
    if (time_ago is None) == (message_id is None):
        message = "give either --time or --messageId"
        raise typer.BadParameter(message)
    if message_id is not None:
        session.client.subscriptions.reset(topic, subscription, message_id, is_excluded=exclude_reset_position)
    elif time_ago is not None:
        session.client.subscriptions.reset_to_time(topic, subscription, int((time.time() - time_ago) * 1000))
    say(f"moved {subscription}")


@command(app, "expire-messages")
def expire_messages(
    session: Session,
    topic: Topic,
    subscription: Subscription,
    expire_time: Annotated[
        int, typer.Option("--expireTime", "-t", parser=seconds, metavar="TIME", help="Older than this: 90s, 10m, 3h.")
    ],
) -> None:
    """Acknowledge all messages older than a time."""
    session.client.subscriptions.expire(topic, subscription, expire_time)
    say(f"expired messages of {subscription}")


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
    session.client.subscriptions.set_replicated(topic, subscription, replicated=enable)
    say(f"{subscription} is {'' if enable else 'not '}replicated")


@command(app, "get-replicated-subscription-status")
def get_replicated(session: Session, topic: Topic, subscription: Subscription) -> None:
    """Show whether the progress of a subscription is replicated to the other clusters."""
    session.fields(session.client.subscriptions.replicated(topic, subscription))
