"""The watch of links of a connection (protocol: Watches of links)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.wire import commands

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.client.connection import PulsarConnection
    from magnetar.wire.proto import pulsar_api_pb2 as pb


async def watch_links(
    connection: PulsarConnection, target: str, on_changed: Callable[[pb.CommandLinksChanged], None]
) -> None:
    """Call ``on_changed`` with the namespaces that are replicated to ``target``, and then with each change.

    Raises as ``PulsarConnection.request``. A connection has one watch, which ends with it.
    """
    connection.owners.links = on_changed
    await connection.request(lambda request_id: commands.watch_links(request_id=request_id, target=target))
