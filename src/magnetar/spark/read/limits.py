"""Limits of a micro-batch, in bytes and in messages, shared by its topics.

Ledgers state bytes and entries. The messages of an entry are known only from its metadata, so a limit in messages is
applied by reading the entries on the driver, up to the limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.spark.read.range_reader import RangeReader
from magnetar.spark.read.ranges import Range, clipped, entries_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from magnetar.spark.read.batches.messages import Stored
    from magnetar.spark.read.options import ReadOptions
    from magnetar.spark.read.ranges import Log

    Positions = Mapping[str, Position]
    Logs = Mapping[str, Log]


def up_to_bytes(starts: Positions, ends: Positions, logs: Logs, bytes_max: int) -> dict[str, Position]:
    """Return ends such that all ranges have about ``bytes_max`` bytes, in proportion to what each topic has.

    Each topic with entries gets at least one, so that every topic makes progress.
    """
    pieces = {
        topic: list(clipped(logs[topic].ledgers, starts.get(topic, EARLIEST), end)) for topic, end in ends.items()
    }
    total = sum(size for parts in pieces.values() for _, _, size in parts)
    if total <= bytes_max:
        return dict(ends)
    return {topic: _end_of_share(parts, bytes_max / total, ends[topic]) for topic, parts in pieces.items()}


def _end_of_share(parts: Sequence[tuple[Position, Position, int]], share: float, end: Position) -> Position:
    """Return the end of the first ``share`` of the bytes in ``parts``."""
    left = share * sum(size for _, _, size in parts)
    for number, (first, last, size) in enumerate(parts):
        if size > left:
            entries = int((last.entry_id - first.entry_id) * left / size)
            return Position(first.ledger_id, first.entry_id + max(entries, 0 if number else 1))
        left -= size
    return end


def up_to_messages(
    options: ReadOptions, starts: Positions, ends: Positions, logs: Logs, messages_max: int
) -> dict[str, Position]:
    """Return ends such that all ranges have at most ``messages_max`` messages, in proportion to the entries of topics.

    The limit is exceeded if single entries have more messages, because each topic with entries gets at least one entry
    and an entry is never split. Raises as RangeReader.
    """
    entries = {topic: entries_in(logs[topic].ledgers, starts.get(topic, EARLIEST), end) for topic, end in ends.items()}
    total = max(1, sum(entries.values()))
    return {
        topic: _end_of_messages(
            options, Range(topic, starts.get(topic, EARLIEST), end), messages_max * entries[topic] // total
        )
        for topic, end in ends.items()
    }


def _end_of_messages(options: ReadOptions, wanted: Range, messages_max: int) -> Position:
    """Return the end of the first ``messages_max`` messages of a range, or the first entry; reads the entries."""
    with RangeReader(options, wanted, at_once=messages_max + 1) as reader:
        return counted((stored for chunk in reader.chunks() for stored in chunk), messages_max) or wanted.end


def counted(entries: Iterable[Stored], messages_max: int) -> Position | None:
    """Return the end of the entries with at most ``messages_max`` messages, or of the first one; None for all."""
    messages = 0
    for number, stored in enumerate(entries):
        messages += stored.messages
        if messages > messages_max and number:
            return stored.position
    return None
