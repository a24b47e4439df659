"""``magnetar subscriptions``: where subscriptions stand, at a glance; to change one see ``magnetar topics``."""

from __future__ import annotations

import typer

from magnetar.cli.output import say
from magnetar.cli.session import Namespace, Session, Topic, command
from magnetar.cli.standing import holes, standings, unavailable

app = typer.Typer(
    help="Where subscriptions stand, at a glance. To change one, see: magnetar topics --help", no_args_is_help=True
)


@command(app, "list")
def list_subscriptions(session: Session, namespace: Namespace) -> None:
    """List every subscription of a namespace's topics."""
    topics = session.client.topics
    session.rows(
        [
            {"topic": str(topic)} | row
            for topic in topics.of_namespace(namespace)
            for row in standings(topics.stats(topic))
        ]
    )


@command(app, "stats")
def stats(session: Session, topic: Topic) -> None:
    """Show where a topic's subscriptions stand."""
    found = session.client.topics.stats(topic, precise_backlog=True)
    session.rows(list(standings(found)))
    for cluster, reason in unavailable(found).items():
        say(f"without exact progress in {cluster}: {reason}")


@command(app, "holes")
def show_holes(session: Session, topic: Topic) -> None:
    """Show the oldest entries that are not acknowledged below acknowledged ones, and who holds them."""
    session.rows(list(holes(session.client.topics.stats(topic))))
