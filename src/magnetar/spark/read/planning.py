"""The plan of a read: one range per topic or partition, divided among tasks. Pure, from the ledgers of the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError, MagnetarError
from magnetar.base.position import EARLIEST, Position
from magnetar.spark.read.offsets import parse_offsets
from magnetar.spark.read.ranges import Range, entries_in, tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from magnetar.spark.options import ReadOptions
    from magnetar.spark.read.ranges import Ledger

    Ledgers = Mapping[str, Sequence[Ledger]]


class DataLostError(MagnetarError):
    """Entries of a range are gone; the text names the topic and the positions."""


def batch_ranges(ledgers: Ledgers, options: ReadOptions) -> list[Range]:
    """Return the ranges of a batch read, one per task; raises ConfigurationError and DataLostError."""
    starts = bounds(ledgers, "startingOffsets", options.starting_offsets)
    ends = bounds(ledgers, "endingOffsets", options.ending_offsets)
    return ranges(ledgers, options, starts, ends)


def ranges(
    ledgers: Ledgers, options: ReadOptions, starts: Mapping[str, Position], ends: Mapping[str, Position]
) -> list[Range]:
    """Return the ranges from ``starts`` to ``ends``, one per task; a topic without a start begins with its first entry.

    Raises DataLostError.
    """
    wanted: dict[Range, Sequence[Ledger]] = {}
    for topic, end in ends.items():
        start = starts.get(topic, EARLIEST)
        if start < end:
            if options.fail_on_data_loss:
                check_start(topic, start, ledgers[topic])
            wanted[Range(topic, start, end)] = ledgers[topic]
    return tasks(wanted, options.min_partitions)


def first_offsets(ledgers: Ledgers, options: ReadOptions) -> dict[str, Position]:
    """Return the positions at which a new stream begins."""
    starts = bounds(ledgers, "startingOffsets", options.starting_offsets)
    return {topic: min(start, end_of(ledgers[topic])) for topic, start in starts.items()}


def end_of(ledgers: Sequence[Ledger]) -> Position:
    """Return the position of the next entry to be written; EARLIEST if the topic has no ledger yet."""
    return Position(ledgers[-1].ledger_id, ledgers[-1].entries) if ledgers else EARLIEST


def check_start(topic: str, start: Position, ledgers: Sequence[Ledger]) -> None:
    """Raise DataLostError if entries from ``start`` on are gone, or may be gone."""
    first = Position(ledgers[0].ledger_id, 0) if ledgers else None
    if start > EARLIEST and (first is None or start < first):
        begin = f"begins at {first}, after" if first else "has no entries at"
        problem = f"{topic} {begin} the start {start}: entries were deleted"
        raise _lost(problem)


def check_complete(wanted: Range, ledgers: Sequence[Ledger]) -> None:
    """Raise DataLostError if entries of a range are gone since it was planned."""
    held = entries_in(ledgers, wanted.start, wanted.end)
    if held < wanted.entries:
        gone = wanted.entries - held
        problem = f"{wanted.topic}: {gone} of {wanted.entries} entries before {wanted.end} were deleted"
        raise _lost(problem)


def _lost(problem: str) -> DataLostError:
    hint = "use a subscription or retention to keep them, or set failOnDataLoss=false to go on"
    return DataLostError(f"{problem}\nhint: {hint}")


def bounds(topics: Iterable[str], option: str, text: str) -> dict[str, Position]:
    """Return the position that an option states for each topic; raises ConfigurationError."""
    given = parse_offsets(option, text)
    if isinstance(given, Position):
        return dict.fromkeys(topics, given)
    missing = [topic for topic in topics if topic not in given]
    if missing:
        message = f"option {option} has no position for {', '.join(missing)}"
        raise ConfigurationError(message)
    return {topic: given[topic] for topic in topics}
