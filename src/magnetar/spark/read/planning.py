"""The plan of a read: one range per topic or partition, divided among tasks. Pure, from the logs of the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import DataLossError
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.spark.read.ranges import Range, clipped, entries_in, tasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.spark.read.options import ReadOptions
    from magnetar.spark.read.ranges import Ledger, Log

    Logs = Mapping[str, Log]


def first_positions(starts: Mapping[str, Position], logs: Logs) -> dict[str, Position]:
    """Return where a query begins: after the mark-delete position of the subscription, else at the start."""
    return {topic: _after_mark_delete(logs[topic], start) for topic, start in starts.items()}


def ranges(
    logs: Logs, options: ReadOptions, starts: Mapping[str, Position], ends: Mapping[str, Position]
) -> list[Range]:
    """Return the ranges from ``starts`` to ``ends``, one per task; a topic without a start begins with its first entry.

    Raises DataLossError.
    """
    wanted: dict[Range, Sequence[Ledger]] = {}
    for topic, end in ends.items():
        start = starts.get(topic, EARLIEST)
        if start < end:
            if options.fail_on_data_loss:
                check_start(topic, start, logs[topic])
            wanted[Range(topic, start, end)] = logs[topic].ledgers
    return tasks(wanted, options.min_partitions)


def end_of(log: Log) -> Position:
    """Return the position of the next entry to be written; EARLIEST if the topic has no ledger yet."""
    ledgers = log.ledgers
    return Position(ledgers[-1].ledger_id, ledgers[-1].entries) if ledgers else EARLIEST


def last_before(position: Position, ledgers: Sequence[Ledger]) -> Position | None:
    """Return the position of the last entry before ``position``; None if there is none."""
    parts = list(clipped(ledgers, EARLIEST, position))
    return Position(parts[-1][1].ledger_id, parts[-1][1].entry_id - 1) if parts else None


def check_start(topic: str, start: Position, log: Log) -> None:
    """Raise DataLossError if entries from ``start`` on are gone, or may be gone.

    Entries before the mark-delete position of the subscription are not missing: this query acknowledged them.
    """
    first = Position(log.ledgers[0].ledger_id, 0) if log.ledgers else None
    if start == EARLIEST or (first is not None and (start >= first or _after_mark_delete(log, LATEST) <= first)):
        return
    begin = f"begins at {first}, after" if first else "has no entries at"
    problem = f"{topic} {begin} the start {start}: entries were deleted"
    raise _lost(problem)


def check_complete(wanted: Range, ledgers: Sequence[Ledger]) -> None:
    """Raise DataLossError if entries of a range are gone since it was planned."""
    held = entries_in(ledgers, wanted.start, wanted.end)
    if held < wanted.entries:
        gone = wanted.entries - held
        problem = f"{wanted.topic}: {gone} of {wanted.entries} entries before {wanted.end} were deleted"
        raise _lost(problem)


def _lost(problem: str) -> DataLossError:
    hint = "use a subscription or retention to keep them, or go on without them with failOnDataLoss=false"
    return DataLossError(f"{problem}\nhint: {hint}")


def _after_mark_delete(log: Log, default: Position) -> Position:
    """Return the first position that the subscription has not acknowledged; ``default`` without a subscription."""
    place = log.mark_delete
    if place is None:
        return default
    return place if place == EARLIEST else Position(place.ledger_id, place.entry_id + 1)
