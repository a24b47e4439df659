"""SENDs of the entries of links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RemoteProtocolError
from magnetar.wire import commands
from magnetar.wire.entries.entry import messages_in, schema_version
from magnetar.wire.entries.origin import Origin, stamp_and_count
from magnetar.wire.links import RUN_ENTRIES_MAX
from magnetar.wire.message_id import LinkRun

if TYPE_CHECKING:
    from magnetar.client.connection import PulsarConnection
    from magnetar.pipeline.rows import Carried

_COMMAND_BYTES = 4096
"""Maximum bytes of a frame with a run besides its entries. A single entry of it has less with its stamp."""


def source_version(carried: Carried) -> bytes:
    """Return the version of the schema at the source, empty for none.

    Raises RemoteProtocolError for a damaged entry.
    """
    return carried.schema_version if carried.sizes else schema_version(carried.entry)


def takes_run(broker: PulsarConnection, carried: Carried) -> bool:
    """Return whether a broker takes a run at once; otherwise its entries are sent one by one."""
    size = len(carried.entry) + len(carried.schema_version) + _COMMAND_BYTES
    is_small = size <= broker.frame_size_max and carried.entries <= RUN_ENTRIES_MAX
    return broker.peer_features.supports_link_runs and is_small


def needs_properties(broker: PulsarConnection) -> bool:
    """Return whether a broker of an earlier release reads the place of an entry from properties."""
    return broker.peer_is_magnetar and not broker.peer_features.supports_link_place


def send_frame(
    carried: Carried, producer_id: int, sequence_id: int, version: bytes, *, as_properties: bool = False
) -> bytes:
    """Return SEND of an entry or a run, with the ``version`` of the schema at the target, empty for none.

    ``as_properties``: see ``stamp``.

    Raises RemoteProtocolError for an entry that is damaged, which would be lost if it was skipped. The target detects
    damage in a run.
    """
    position, link = carried.position, carried.link
    if carried.sizes:
        run = LinkRun(position, link, carried.sizes, version, carried.entry, carried.origin)
        return commands.send_run(producer_id=producer_id, sequence_id=sequence_id, run=run)
    cluster, at = carried.origin or (carried.attachment.source, position)
    origin = Origin(cluster, at, link.previous, link.floor, link.link_start)
    entry, messages = stamp_and_count(carried.entry, origin, version, as_properties=as_properties)
    return commands.send(
        producer_id=producer_id,
        sequence_id=sequence_id,
        entry=entry,
        num_messages=messages or messages_in(carried.entry),
        marker=carried.is_marker,
    )


def check_size(frame: bytes, target: str, limit: int) -> None:
    """Raise RemoteProtocolError for a frame that would end the connection, and with it every other topic's link."""
    if len(frame) > limit:
        message = f"a frame of {len(frame)} bytes, {target} takes {limit} (maxMessageSize)"
        raise RemoteProtocolError(message)
