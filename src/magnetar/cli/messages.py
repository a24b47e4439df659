"""``magnetar messages``: where messages are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import Annotated, Any

import typer

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError, ClusterUnreachableError
from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.cli.failures import ExitCode, FailedError, Failure
from magnetar.cli.global_options import noun
from magnetar.cli.profile_store import load_profiles
from magnetar.cli.session import Session, Topic, command
from magnetar.geo.origins.locating import Found, Location, State, compared

TIMEOUT_S = 10.0
"""Timeout of a request to another cluster, in seconds."""

UNKNOWN = "unknown"
"""State of a message in a cluster that does not tell."""

app = noun("Places of messages in the clusters, and message ids of other clusters.")


def _position(text: str) -> Position:
    try:
        found = Position.parse(text)
    except ValueError:
        found = Position(-1, -1)
    if min(found) < 0:
        message = f"{text!r} is not ledger:entry"
        raise typer.BadParameter(message)
    return found


@command(app, "locate")
def locate(
    session: Session,
    topic: Topic,
    position: Annotated[Position, typer.Argument(parser=_position, metavar="POSITION", help="ledger:entry.")],
    origin: Annotated[
        str | None,
        typer.Option(help="The cluster whose position it is, where the message was published; default: this cluster."),
    ] = None,
) -> None:
    """Show where a message was published, and its position in each cluster.

    A position is that of a message id without its batch index. Without --origin, it is the position in this cluster of
    a message from any cluster.
    """
    own = str(session.client.brokers.runtime_configuration()["clusterName"])
    if origin is None:
        origin, position = _origin(session, own, topic, position)
    answers, reasons = _ask(session.client, own, topic, origin, position)
    rows = [*map(_known, compared(origin, answers).items()), *map(_unknown, reasons.items())]
    rows.sort(key=itemgetter("cluster"))
    if session.is_json:
        session.fields({"origin": {"cluster": origin, "position": str(position)}, "clusters": rows})
    else:
        session.note(f"published in {origin} at {position}")
        session.rows({name: _text(value) for name, value in row.items()} for row in rows)


@command(app, "former-cluster")
def former_cluster(session: Session, topic: Topic) -> None:
    """Show the cluster whose message ids are translated for clients that came from there."""
    session.fields(session.client.messages.former_cluster(topic))


@command(app, "set-former-cluster")
def set_former_cluster(
    session: Session,
    topic: Topic,
    cluster: Annotated[str, typer.Option("--former", help="The cluster from which the clients of the topic come.")],
) -> None:
    """Translate message ids of a cluster from which clients come: acknowledgements, seeks and starts of readers.

    The ledgers of the topic in this cluster must have higher ids.
    """
    before = session.client.messages.former_cluster(topic)
    session.client.messages.set_former_cluster(topic, cluster)
    session.changed(topic, "former cluster", before, session.client.messages.former_cluster(topic))


@command(app, "remove-former-cluster")
def remove_former_cluster(session: Session, topic: Topic) -> None:
    """Translate no message ids any more, when no client has ids of the former cluster."""
    before = session.client.messages.former_cluster(topic)
    session.client.messages.remove_former_cluster(topic)
    session.changed(topic, "former cluster", before, None)


def _origin(session: Session, own: str, topic: TopicName, position: Position) -> tuple[str, Position]:
    """Return where the message at a position of this cluster was published; raises FailedError if it is not there."""
    found = session.client.messages.origin(topic, position)
    if found["state"] == State.PRESENT:
        return found["cluster"], Position.parse(found["position"])
    reason = "has trimmed the message" if found["state"] == State.TRIMMED else "has no message"
    hint = f"if {position} is the position at its origin, add --origin {own}, or another cluster"
    raise FailedError(Failure(ExitCode.FAILED, f"{own} {reason} at {position} of {topic}", hint, session.client.url))


def _ask(
    client: AdminClient, own: str, topic: TopicName, origin: str, position: Position
) -> tuple[dict[str, Found], dict[str, str]]:
    """Ask each cluster of the namespace, and the origin; return the answers, and the reasons why there are none."""
    answers: dict[str, Found] = {}
    reasons: dict[str, str] = {}
    for name in sorted({own, origin, *client.namespaces.clusters(topic.namespace_name)}):
        try:
            with _client_of(client, own, name) as there:
                answers[name] = _found(there.messages.location(topic, origin, position))
        except (AdminError, ClusterUnreachableError) as error:
            reasons[name] = str(error)
    return answers, reasons


@contextmanager
def _client_of(client: AdminClient, own: str, name: str) -> Iterator[AdminClient]:
    """Return a client of a cluster, by the profile with its name, otherwise by its registered URL."""
    if name == own:
        yield client
        return
    profile = load_profiles().by_name.get(name)
    if profile is not None:
        with AdminClient(profile.admin_url, credentials=profile.credentials, timeout_s=TIMEOUT_S) as there:
            yield there
        return
    url = client.clusters.get(name).get("serviceUrl")
    if url is None:
        message = f"{name} is registered without a serviceUrl"
        raise ClusterUnreachableError(message)
    with AdminClient(url, timeout_s=TIMEOUT_S) as there:
        yield there


def _found(answer: dict[str, Any]) -> Found:
    position = answer.get("position")
    location = Location(State(answer["state"]), None if position is None else Position.parse(position))
    return Found(location, answer.get("replicateTo"))


def _known(of_cluster: tuple[str, Location]) -> dict[str, Any]:
    cluster, (state, position) = of_cluster
    shown = None if position is None else str(position)
    return {"cluster": cluster, "state": state.value, "position": shown, "reason": None}


def _unknown(of_cluster: tuple[str, str]) -> dict[str, Any]:
    cluster, reason = of_cluster
    return {"cluster": cluster, "state": UNKNOWN, "position": None, "reason": reason}


def _text(value: object) -> object:
    return "" if value is None else value
