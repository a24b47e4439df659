"""Commands of the pipeline about the links of a cluster, additions of Magnetar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.session.requests import check_room, start

if TYPE_CHECKING:
    from magnetar.broker.session.session import Session
    from magnetar.wire.proto import pulsar_api_pb2 as pb


def watch_links(session: Session, command: pb.CommandWatchLinks) -> None:
    """Report the namespaces that are replicated to a cluster (protocol: Watches of links)."""
    check_room(session)
    start(session, command.request_id, session.topics.link_watches.serve(session, command.request_id, command.target))


def carry_links(session: Session, command: pb.CommandCarryLinks) -> None:
    """Report the links to a cluster that need a holder (protocol: Resting links)."""
    check_room(session)
    start(session, command.request_id, session.topics.link_carriers.carry(session, command))


def watch_losses(session: Session, command: pb.CommandWatchLosses) -> None:
    """Report the topics that this cluster loses (protocol: Resting links)."""
    check_room(session)
    start(session, command.request_id, session.topics.link_carriers.watch_losses(session, command.request_id))
