"""Ranges of positions, and their division among tasks. Pure.

A position in an offset is the place of the next entry to read. A range includes its start and excludes its end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TASK_BYTES = 128 * 2**20
"""Bytes of entries that a task reads, unless more tasks are asked for."""


class Ledger(NamedTuple):
    """A ledger of a topic, with the entries that it had when it was looked at."""

    ledger_id: int
    entries: int
    size: int
    """Bytes of the entries."""


class Log(NamedTuple):
    """A topic, as the admin API shows it."""

    ledgers: Sequence[Ledger]
    """The ledgers in order; the last one may be empty."""
    mark_delete: Position | None = None
    """Mark-delete position of the predefined subscription; None if the topic does not have it."""


@dataclass(frozen=True, slots=True)
class Range:
    """Entries of a topic, or of a partition, from ``start`` up to and without ``end``."""

    topic: str
    start: Position
    end: Position
    entries: int = 0
    """Number of entries in the range when it was planned; markers among them are not delivered."""


def clipped(ledgers: Sequence[Ledger], start: Position, end: Position) -> Iterator[tuple[Position, Position, int]]:
    """Yield the part of each ledger in the range from ``start`` to ``end``: start, end and bytes; no empty parts."""
    for ledger in ledgers:
        first = max(0, start.entry_id) if start.ledger_id == ledger.ledger_id else 0
        last = min(end.entry_id, ledger.entries) if end.ledger_id == ledger.ledger_id else ledger.entries
        if start.ledger_id <= ledger.ledger_id <= end.ledger_id and first < last:
            size = ledger.size * (last - first) // ledger.entries
            yield Position(ledger.ledger_id, first), Position(ledger.ledger_id, last), size


def divided(wanted: Range, ledgers: Sequence[Ledger], parts: int) -> list[Range]:
    """Divide a range into at most ``parts`` ranges of about equal bytes, in order; none if it has no entries.

    The first one begins at the start of the range, the last one ends after its last entry.
    """
    pieces = list(clipped(ledgers, wanted.start, wanted.end))
    total = sum(size for _, _, size in pieces)
    if not pieces:
        return []
    cuts = [wanted.start]
    share, taken = max(1, math.ceil(total / max(1, parts))), 0
    for start, end, size in pieces:
        entries = end.entry_id - start.entry_id
        # Cut where the bytes so far reach a multiple of the share; entries of one ledger count as equally large.
        while size and len(cuts) < parts and taken + size > len(cuts) * share:
            at = start.entry_id + max(1, math.ceil(entries * (len(cuts) * share - taken) / size))
            if at >= end.entry_id:
                break
            cuts.append(Position(start.ledger_id, at))
        taken += size
    cuts.append(pieces[-1][1])
    return [Range(wanted.topic, start, end, entries_in(ledgers, start, end)) for start, end in pairwise(cuts)]


def entries_in(ledgers: Sequence[Ledger], start: Position, end: Position) -> int:
    """Return the number of entries from ``start`` up to and without ``end``."""
    return sum(last.entry_id - first.entry_id for first, last, _ in clipped(ledgers, start, end))


def steps_back(ledgers: Sequence[Ledger], position: Position, count: int) -> Position:
    """Return the position ``count`` entries before ``position``, or that of the first entry."""
    place = position
    for first, last, _ in reversed(list(clipped(ledgers, EARLIEST, position))):
        place = max(first, Position(last.ledger_id, last.entry_id - count))
        count -= last.entry_id - place.entry_id
        if count <= 0:
            break
    return place


def tasks(wanted: Mapping[Range, Sequence[Ledger]], at_least: int) -> list[Range]:
    """Divide ranges of several topics into tasks of about TASK_BYTES, and at least ``at_least`` tasks if possible."""
    sizes = {one: sum(size for _, _, size in clipped(ledgers, one.start, one.end)) for one, ledgers in wanted.items()}
    total = max(1, sum(sizes.values()))
    divisions = []
    for one, ledgers in wanted.items():
        parts = max(math.ceil(sizes[one] / TASK_BYTES), math.ceil(at_least * sizes[one] / total), 1)
        divisions += divided(one, ledgers, parts)
    return divisions
