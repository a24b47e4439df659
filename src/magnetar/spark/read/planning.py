"""The plan of a batch read: one range per topic or partition, divided among tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError, MagnetarError
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.spark.read.offsets import parse_offsets
from magnetar.spark.read.ranges import Range, tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from magnetar.spark.options import ReadOptions
    from magnetar.spark.read.cluster import Cluster
    from magnetar.spark.read.ranges import Ledger


class DataLostError(MagnetarError):
    """Entries of a range are gone; the text names the topic and the positions."""


def plan(cluster: Cluster, options: ReadOptions) -> list[Range]:
    """Return the ranges of a batch read, one per task; raises ConfigurationError, DataLostError and as Cluster."""
    topics = cluster.topics()
    starts = _bounds(topics, "startingOffsets", options.starting_offsets)
    ends = _bounds(topics, "endingOffsets", options.ending_offsets)
    return changes(cluster, options, starts, ends)


def changes(
    cluster: Cluster, options: ReadOptions, starts: Mapping[str, Position], ends: Mapping[str, Position]
) -> list[Range]:
    """Return the ranges between two offsets, one per task; a topic without a start is read from its beginning.

    Raises DataLostError, and as Cluster.
    """
    wanted: dict[Range, Sequence[Ledger]] = {}
    for topic, last in ends.items():
        start = starts.get(topic, EARLIEST)
        if start >= last:
            continue
        ledgers = cluster.ledgers(topic)
        if options.fail_on_data_loss:
            check_start(topic, start, ledgers)
        if ledgers:
            first = Position(ledgers[0].ledger_id, 0)
            wanted[Range(topic, max(start, first), min(last, end_of(ledgers)))] = ledgers
    return tasks(wanted, options.min_partitions)


def first_offsets(cluster: Cluster, options: ReadOptions) -> dict[str, Position]:
    """Return the positions at which a new stream begins."""
    topics = cluster.topics()
    starts = _bounds(topics, "startingOffsets", options.starting_offsets)
    ends = dict.fromkeys(topics, LATEST) | last_offsets(cluster, topics)
    return {topic: min(start, ends[topic]) for topic, start in starts.items()}


def last_offsets(cluster: Cluster, topics: Iterable[str]) -> dict[str, Position]:
    """Return the ends of ``topics``; those without entries are left out."""
    ledgers = {topic: cluster.ledgers(topic) for topic in topics}
    return {topic: end_of(held) for topic, held in ledgers.items() if held}


def end_of(ledgers: Sequence[Ledger]) -> Position:
    """Return the position after the last entry."""
    return Position(ledgers[-1].ledger_id, ledgers[-1].entries)


def check_start(topic: str, start: Position, ledgers: Sequence[Ledger]) -> None:
    """Raise DataLostError if entries from ``start`` on are gone, or may be gone."""
    first = Position(ledgers[0].ledger_id, 0) if ledgers else None
    if start > EARLIEST and (first is None or start < first):
        begin = f"begins at {first}, after" if first else "has no entries at"
        message = (
            f"{topic} {begin} the start {start}: entries were deleted"
            "\nhint: use a subscription or retention to keep them, or set failOnDataLoss=false to go on"
        )
        raise DataLostError(message)


def _bounds(topics: Sequence[str], option: str, text: str) -> Mapping[str, Position]:
    """Return a position for each topic."""
    given = parse_offsets(option, text)
    if isinstance(given, Position):
        return dict.fromkeys(topics, given)
    missing = [topic for topic in topics if topic not in given]
    if missing:
        message = f"option {option} has no position for {', '.join(missing)}"
        raise ConfigurationError(message)
    return given
