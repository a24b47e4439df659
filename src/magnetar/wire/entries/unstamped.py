"""Removal of the stamp from a replicated entry, whose bytes are then those that its producer wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RemoteProtocolError
from magnetar.wire.entries.entry import assemble, intact_parts, parse_metadata
from magnetar.wire.entries.origin import LINK_PLACE_KEY, SOURCE_POSITION, replicated_from, serialized_property
from magnetar.wire.entries.plain_metadata import is_plain

if TYPE_CHECKING:
    from magnetar.base.position import Position


def unstamp(entry: bytes, cluster: str, position: Position) -> bytes | None:
    """Return an entry of ``cluster``, which has ``position`` there, without its stamp, and with a new checksum.

    Returns None if the stamp is not at the end of the metadata, if the entry has two, or if it is not intact.
    """
    try:
        stamped, payload = intact_parts(entry)
        metadata = _without_stamp(stamped, cluster, position)
        if metadata is None:
            return None
        plain = assemble(metadata, payload)
        if is_plain(metadata, 0, len(metadata)) is None and parse_metadata(plain).HasField("replicated_from"):
            return None
    except RemoteProtocolError:
        return None
    return plain


def _without_stamp(metadata: bytes, cluster: str, position: Position) -> bytes | None:
    """Return serialized metadata without the stamp at its end; None if there is another one, or none."""
    opening = replicated_from(cluster) + serialized_property(SOURCE_POSITION, str(position)) + LINK_PLACE_KEY
    start = metadata.rfind(opening)
    place = start + len(opening) + 1
    if start < 0 or place > len(metadata) or metadata[place - 1] != len(metadata) - place:
        return None
    return metadata[:start]
