"""The entries that jobs read: ranges of logs, divided among tasks."""

from __future__ import annotations

import gc
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import Position
from magnetar.spark.read.range_reader import RangeReader
from magnetar.spark.read.ranges import TASK_BYTES, Range, clipped, divided
from magnetar.spark.read.shared_clients import SharedClients

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from magnetar.spark.options import Options
    from magnetar.spark.read.batches.messages import Stored
    from magnetar.spark.read.ranges import Ledger

PIECES_PER_TASK = 200
"""Pieces of a task; small topics share a task."""

AT_ONCE = 40_000
"""Messages of a chunk, unless one entry has more."""

OPENED_AHEAD = 16
"""Pieces that are being opened while another one is read."""


class Piece(NamedTuple):
    """A range of entries of a topic in one cluster, up to and without ``end``."""

    cluster: str
    topic: str
    start: Position
    end: Position
    entries: int
    size: int
    """Bytes of the entries, about."""


def pieces(cluster: str, topic: str, start: Position, ledgers: Sequence[Ledger]) -> list[Piece]:
    """Return the pieces of a log from ``start`` on, each of about TASK_BYTES."""
    if not ledgers:
        return []
    wanted = Range(topic, start, Position(ledgers[-1].ledger_id, ledgers[-1].entries))
    size = sum(part for _, _, part in clipped(ledgers, start, wanted.end))
    parts = divided(wanted, ledgers, -(-size // TASK_BYTES))
    entries = sum(part.entries for part in parts)
    return [Piece(cluster, topic, part.start, part.end, part.entries, size * part.entries // entries) for part in parts]


def tasks(wanted: Iterable[Piece]) -> list[list[Piece]]:
    """Group pieces into tasks of about TASK_BYTES and at most PIECES_PER_TASK pieces."""
    groups: list[list[Piece]] = []
    size = 0
    for piece in wanted:
        if not groups or size + piece.size > TASK_BYTES or len(groups[-1]) >= PIECES_PER_TASK:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += piece.size
    return groups


def chunks(urls: Mapping[str, Options], wanted: Iterable[Piece]) -> Iterator[tuple[Piece, Sequence[Stored]]]:
    """Yield the entries of pieces in chunks; ``urls`` are the addresses of the clusters.

    The next pieces are opened meanwhile, because a piece is often read in less time than it takes to open it.
    """
    is_enabled = gc.isenabled()
    gc.disable()  # entries are in no cycles; the collector would look at each of them several times
    try:
        with SharedClients() as clients:
            for piece, reader in _opened_ahead(urls, wanted, clients):
                with reader:
                    for chunk in reader.chunks():
                        yield piece, chunk
    finally:
        if is_enabled:
            gc.enable()


def _opened_ahead(
    urls: Mapping[str, Options], wanted: Iterable[Piece], clients: SharedClients
) -> Iterator[tuple[Piece, RangeReader]]:
    """Yield the readers of pieces; the next OPENED_AHEAD are being opened."""
    waiting: deque[tuple[Piece, RangeReader]] = deque()
    for piece in wanted:
        reader = RangeReader(urls[piece.cluster], Range(piece.topic, piece.start, piece.end), AT_ONCE, clients)
        reader.open_ahead()
        waiting.append((piece, reader))
        if len(waiting) > OPENED_AHEAD:
            yield waiting.popleft()
    yield from waiting
