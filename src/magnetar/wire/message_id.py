"""Conversion of positions to message ids on the wire, where -1 is sent as 2^64-1."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST, Position
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNSIGNED = 2**64
_SIGN_BIT = 2**63

UNSIGNED_MASK = _UNSIGNED - 1
"""``value & UNSIGNED_MASK`` is the uint64 form of a negative id."""


def message_id(
    position: Position,
    *,
    partition: int = -1,
    batch_index: int = -1,
    batch_size: int = 0,
    ack_set: Sequence[int] = (),
) -> pb.MessageIdData:
    """Convert a position to a message id; fields with their default value are left out."""
    data = pb.MessageIdData(
        ledgerId=position.ledger_id & UNSIGNED_MASK,
        entryId=position.entry_id & UNSIGNED_MASK,
        ack_set=ack_set,
    )
    if partition >= 0:
        data.partition = partition
    if batch_index >= 0:
        data.batch_index = batch_index
    if batch_size > 0:
        data.batch_size = batch_size
    return data


def position_of(data: pb.MessageIdData) -> Position:
    """Return the position of the entry that a message id names."""
    ledger_id, entry_id = data.ledgerId, data.entryId
    return Position(
        ledger_id if ledger_id < _SIGN_BIT else ledger_id - _UNSIGNED,
        entry_id if entry_id < _SIGN_BIT else entry_id - _UNSIGNED,
    )


class Link(NamedTuple):
    """The place of an entry on the link of a replication consumer.

    ``previous`` is the entry sent before it, EARLIEST for none. Between ``floor`` and the entry there is nothing for
    the link. ``link_start`` is true if older entries exist that the link will never carry.
    """

    previous: Position = EARLIEST
    floor: Position = EARLIEST
    link_start: bool = False


class OriginPosition(NamedTuple):
    """A position in the cluster that published an entry."""

    cluster: str
    position: Position


class LinkRun(NamedTuple):
    """Entries with consecutive positions. On the link, each follows the one before."""

    first: Position
    """The position of the first entry in the source."""
    link: Link
    """The place of the first entry on the link."""
    sizes: Sequence[int]
    """The sizes of the entries."""
    schema_version: bytes
    """The version of the schema of all of them; empty for none."""
    entries: bytes
    """The entries, one after the other."""
    origin: OriginPosition | None = None
    """The position of the first entry in its origin, if the entries are in the custody of the source: consecutive, too.

    Then ``link`` has positions of the origin.
    """


def origin_of(message: pb.CommandMessage) -> OriginPosition | None:
    """Return the position at its origin of the first entry of a run in custody; None for other entries."""
    if not message.origin_cluster:
        return None
    return OriginPosition(message.origin_cluster, position_of(message.origin_message_id))


def link_of(message: pb.CommandMessage) -> Link:
    """Return the place of a MESSAGE on its link; the defaults if the broker (Apache Pulsar) does not state it."""
    previous = position_of(message.previous_message_id) if message.HasField("previous_message_id") else EARLIEST
    floor = position_of(message.floor_message_id) if message.HasField("floor_message_id") else previous
    return Link(previous, floor, message.link_start)
