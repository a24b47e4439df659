"""``magnetar subscriptions``: overviews of subscriptions; ``magnetar topics`` changes them."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from magnetar.base.names import NamespaceName, TopicName
from magnetar.cli.failures import ExitCode, FailedError, Failure
from magnetar.cli.global_options import noun
from magnetar.cli.session import Namespace, Session, Topic, command
from magnetar.cli.session import namespace as read_namespace
from magnetar.cli.session import topic as read_topic
from magnetar.cli.standing import holes, protections, standings, unavailable, unprotected
from magnetar.cli.units import seconds

POLL_SECONDS = 0.5
"""Interval of the checks of ``protection --wait``."""

app = noun("Overviews of subscriptions. To change a subscription, see: magnetar topics --help")


@command(app, "list")
def list_subscriptions(session: Session, namespace: Namespace) -> None:
    """List the subscriptions of all topics of a namespace."""
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
    """Show the state of a topic's subscriptions."""
    found = session.client.topics.stats(topic, precise_backlog=True)
    session.rows(list(standings(found)))
    for cluster, reason in unavailable(found).items():
        session.note(f"no exact progress in {cluster}: {reason}")


@command(app, "protection")
def protection(
    session: Session,
    topic: Annotated[
        TopicName | None, typer.Argument(parser=read_topic, metavar="TOPIC", help="persistent://tenant/namespace/topic")
    ] = None,
    namespace: Annotated[
        NamespaceName | None,
        typer.Option("--namespace", "-n", parser=read_namespace, metavar="NAMESPACE", help="A whole tenant/namespace."),
    ] = None,
    wait: Annotated[
        int | None,
        typer.Option(
            "--wait", "-w", parser=seconds, metavar="TIME", help="Wait this long until all are protected: 90s, 10m."
        ),
    ] = None,
) -> None:
    """Show whether consumers of each subscription could continue in another cluster now, since when, and why not.

    With --wait, the exit code is 1 if a subscription is still not protected at the end of the time.
    """
    if (topic is None) == (namespace is None):
        message = "give either TOPIC or --namespace"
        raise typer.BadParameter(message)
    owner = topic if topic is not None else namespace
    assert owner is not None
    deadline = time.monotonic() + (wait or 0)
    found = session.client.subscriptions.protection(owner)
    while wait is not None and unprotected(found) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        found = session.client.subscriptions.protection(owner)
    session.rows(list(protections(found, details=session.is_json)))
    if wait is not None and (count := unprotected(found)):
        message = f"{count} subscriptions are not protected after {wait} s"
        raise FailedError(Failure(ExitCode.FAILED, message, "consumers that move now get some messages again"))


@command(app, "holes")
def show_holes(session: Session, topic: Topic) -> None:
    """Show the oldest unacknowledged entries before acknowledged ones, and the consumers that hold them."""
    session.rows(list(holes(session.client.topics.stats(topic))))
