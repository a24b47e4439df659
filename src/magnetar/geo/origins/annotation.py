"""The annotation that the log stores with a run of replicated entries, so that recovery need not read the entries.

Format, little endian: version u8 = 1, flags u8 (bit 0: the link starts here), length of the cluster's name u8, the name
in UTF-8, then for each extent ledger i64, entry i64, count u32, floor ledger i64, floor entry i64. The log has
checksums of its own. Runs of locally published entries have no annotation.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import CorruptionError
from magnetar.base.position import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

_VERSION = 1
_LINK_START = 1
_HEAD = struct.Struct("<BBB")
_EXTENT = struct.Struct("<qqIqq")


class RunExtent(NamedTuple):
    """``count`` entries of a run with consecutive origin positions."""

    origin_first: Position
    count: int  # type: ignore[assignment]  # hides tuple.count, which has no use here
    floor: Position  # exclusive


class Annotation(NamedTuple):
    """The origins of a run's entries, in order."""

    cluster: str
    extents: tuple[RunExtent, ...]
    link_start: bool


def encode_annotation(cluster: str, extents: Sequence[RunExtent], *, link_start: bool = False) -> bytes:
    """Encode the annotation of a run of entries replicated from ``cluster``; the name has at most 255 bytes."""
    name = cluster.encode()
    parts = [_HEAD.pack(_VERSION, _LINK_START if link_start else 0, len(name)), name]
    parts += map(encode_extent, extents)
    return b"".join(parts)


def encode_extent(extent: RunExtent) -> bytes:
    """Encode one extent, as at the end of an annotation."""
    return _EXTENT.pack(*extent.origin_first, extent.count, *extent.floor)


def decode_annotation(data: bytes) -> Annotation:
    """Decode the result of ``encode_annotation``; raises CorruptionError for anything else."""
    try:
        version, flags, length = _HEAD.unpack_from(data)
        if version != _VERSION:
            message = f"annotation of a run has unknown version {version}"
            raise CorruptionError(message)
        body = data[_HEAD.size :]
        extents = tuple(
            RunExtent(Position(ledger_id, entry_id), count, Position(floor_ledger, floor_entry))
            for ledger_id, entry_id, count, floor_ledger, floor_entry in _EXTENT.iter_unpack(body[length:])
        )
        return Annotation(body[:length].decode(), extents, bool(flags & _LINK_START))
    except (struct.error, UnicodeDecodeError) as error:
        message = f"annotation of a run cannot be read: {data!r}"
        raise CorruptionError(message) from error
