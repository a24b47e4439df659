"""Reports about links over a connection (protocol: Watches of links) (protocol: Resting links)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from magnetar.client.connection import PulsarConnection


async def watch_links(
    connection: PulsarConnection, target: str, on_changed: Callable[[pb.CommandLinksChanged], None]
) -> None:
    """Call ``on_changed`` with the namespaces that are replicated to ``target``, and then with each change.

    Raises as ``PulsarConnection.request``. A connection has one watch, which ends with it.
    """
    connection.owners.reports[pb.BaseCommand.LINKS_CHANGED] = lambda report: on_changed(report.linksChanged)
    await connection.request(lambda request_id: commands.watch_links(request_id=request_id, target=target))


async def carry_links(
    connection: PulsarConnection,
    carried: pb.CommandCarryLinks,
    on_due: Callable[[pb.CommandLinksDue], None],
) -> None:
    """Carry the links to a target, and call ``on_due`` with those that need a holder.

    A later call on the same connection replaces this one. Raises LinkHeldError if another client carries the links,
    otherwise as ``PulsarConnection.request``.
    """
    connection.owners.reports[pb.BaseCommand.LINKS_DUE] = lambda report: on_due(report.linksDue)

    def build(request_id: int) -> bytes:
        carried.request_id = request_id
        return commands.encode(carried)

    await connection.request(build)


async def watch_losses(connection: PulsarConnection, on_lost: Callable[[str, Collection[str]], None]) -> None:
    """Call ``on_lost`` with the state of the cluster and no topics, then with each new state and the lost topics.

    Raises as ``PulsarConnection.request``.
    """
    connection.owners.reports[pb.BaseCommand.TOPICS_LOST] = lambda report: on_lost(
        report.topicsLost.state, report.topicsLost.topics
    )
    await connection.request(lambda request_id: commands.watch_losses(request_id=request_id))
