"""A run of entries of a link, with the stamps that this cluster gives them (protocol: Runs)."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import RemoteProtocolError, RequestError, ServerError
from magnetar.base.position import Position
from magnetar.wire.entries.origin import Origin, stamp_and_count
from magnetar.wire.entries.run_stamps import stamp_plain
from magnetar.wire.links import RUN_ENTRIES_MAX
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.wire.proto import pulsar_api_pb2 as pb

_ENTRY_ID_MAX = 2**63 - 1


class PlainRun(NamedTuple):
    """A run of intact entries with plain metadata, which concern neither brokers nor the time of delivery."""

    first: Origin
    entries: list[bytes]
    messages: int


class StampedEntry(NamedTuple):
    """An entry of a run."""

    origin: Origin
    entry: bytes | RequestError
    """The entry with its stamp, or the refusal of a damaged one."""
    messages: int
    """The number of messages; 0 if the metadata must be parsed."""


class ArrivedRun:
    """The entries of a SEND, without stamps."""

    __slots__ = ("_entries", "_schema_version", "first")

    def __init__(self, source: str, command: pb.CommandSend, body: bytes) -> None:
        """Split the ``body`` of a SEND from ``source``; its entries may be those of a cluster in its custody.

        Raises RemoteProtocolError if the command does not describe it.
        """
        self._entries = _split(command, body)
        self._schema_version = command.schema_version
        position = position_of(command.origin_message_id)
        if position.entry_id < 0 or position.entry_id + len(self._entries) > _ENTRY_ID_MAX:
            message = f"a run of {len(self._entries)} entries from {position} on"
            raise RemoteProtocolError(message)
        previous, floor = position_of(command.previous_message_id), position_of(command.floor_message_id)
        self.first = Origin(command.origin_cluster or source, position, previous, floor, command.link_start)
        """The origin of the first entry."""

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def plain(self) -> PlainRun | None:
        """Return the stamped entries; None if one of them is not intact, or does not have plain metadata."""
        stamped = stamp_plain(self._entries, self.first, self._schema_version)
        return None if stamped is None else PlainRun(self.first, *stamped)

    def stamped(self) -> list[StampedEntry]:
        """Return each entry."""
        each = zip(self._origins(), self._entries, strict=True)
        return [_stamped(origin, entry, self._schema_version) for origin, entry in each]

    def _origins(self) -> Iterator[Origin]:
        yield self.first
        source, position = self.first.cluster, self.first.position
        for _ in self._entries[1:]:
            previous, position = position, Position(position.ledger_id, position.entry_id + 1)
            yield Origin(source, position, previous, previous)


def _split(command: pb.CommandSend, body: bytes) -> list[bytes]:
    sizes = command.entry_sizes
    ends = list(accumulate(sizes, initial=0))
    if len(sizes) > RUN_ENTRIES_MAX or ends[-1] != len(body):
        message = f"a run of {len(sizes)} entries with {ends[-1]} bytes in a frame of {len(body)}"
        raise RemoteProtocolError(message)
    return [body[start:end] for start, end in pairwise(ends)]


def _stamped(origin: Origin, entry: bytes, schema_version: bytes) -> StampedEntry:
    try:
        return StampedEntry(origin, *stamp_and_count(entry, origin, schema_version))
    except RemoteProtocolError as error:
        return StampedEntry(origin, RequestError(ServerError.ChecksumError, f"entry {origin.position}: {error}"), 0)
