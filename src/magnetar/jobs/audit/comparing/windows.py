"""The entries that a cluster is expected to have, by origin. Pure.

A link sends the entries of its cluster in order. So an entry is lost if the target has a later one of the same origin,
or if the link says that it has delivered a later one. Newer entries are in flight. Entries that were trimmed in the
target, or that a link declared that it will not carry, are not comparable. Entries that an operator let the link skip,
because they are damaged, are told apart from lost ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from magnetar.base.position import EARLIEST, LATEST, Position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

NOT_COMPARABLE = 0
EXPECTED = 1
IN_FLIGHT = 2
SKIPPED = 3


class Gap(NamedTuple):
    """Positions that a link does not carry, both bounds exclusive."""

    after: Position
    before: Position


class Window(NamedTuple):
    """The entries of an origin that a cluster is expected to have: in ``(after, through]``, without those in gaps."""

    cluster: str
    after: Position
    through: Position
    is_fed: bool
    """Whether newer entries are on their way; otherwise no link brings them."""
    gaps: tuple[Gap, ...] = ()
    skipped: tuple[Gap, ...] = ()
    """Damaged entries that the link skips by request of an operator."""

    def states(self, ledger_id: int, first: int, stop: int) -> NDArray[np.int8]:
        """Return the states of the entries ``first`` up to and without ``stop`` of a ledger of the origin."""
        states = np.full(stop - first, EXPECTED, np.int8)
        states[: _through(self.after, ledger_id, first, stop)] = NOT_COMPARABLE
        states[_through(self.through, ledger_id, first, stop) :] = IN_FLIGHT if self.is_fed else NOT_COMPARABLE
        for gap in self.gaps:
            states[_within(gap, ledger_id, first, stop)] = NOT_COMPARABLE
        for gap in self.skipped:
            part = states[_within(gap, ledger_id, first, stop)]
            part[part != NOT_COMPARABLE] = SKIPPED
        return states


def _within(gap: Gap, ledger_id: int, first: int, stop: int) -> slice:
    """Return which of the entries ``first`` up to and without ``stop`` are in a gap."""
    end = Position(gap.before.ledger_id, gap.before.entry_id - 1)
    return slice(_through(gap.after, ledger_id, first, stop), _through(end, ledger_id, first, stop))


def _through(position: Position, ledger_id: int, first: int, stop: int) -> int:
    """Return how many of the entries ``first`` up to and without ``stop`` are at or before ``position``."""
    if position.ledger_id != ledger_id:
        return 0 if position.ledger_id < ledger_id else stop - first
    return min(max(position.entry_id + 1 - first, 0), stop - first)


@dataclass(frozen=True, slots=True)
class Log:
    """A topic in one cluster, as the admin API describes it."""

    exists: bool = False
    end: Position = EARLIEST
    """The newest entry that was read; EARLIEST if the log is empty."""
    head: Position = EARLIEST
    """The place of the oldest entry that is still stored, or of the next one."""
    trimmed: Mapping[str, Position] | None = None
    """Newest trimmed entry by origin; None if the cluster does not tell."""
    delivered: Mapping[str, Position] = field(default_factory=dict)
    """By target, the position up to which a link had delivered before the ends of all logs were taken."""
    skipped: Mapping[str, tuple[Gap, ...]] = field(default_factory=dict)
    """By target, damaged entries that a link skips by request of an operator."""


class Held(NamedTuple):
    """The entries of one origin in one cluster, as read."""

    oldest: Position
    newest: Position
    starts: tuple[Gap, ...] = ()
    """Where links started: between the entry before, EARLIEST for none, and the first one that the link carried."""


NOTHING = Held(LATEST, EARLIEST)
"""No entry of the origin."""


def windows(origin: str, logs: Mapping[str, Log], held: Mapping[str, Held]) -> list[Window]:
    """Return the windows of all clusters for the entries of ``origin``; by cluster, logs and what each has."""
    source = logs.get(origin)
    return [
        _of_origin(cluster, log) if cluster == origin else _of_target(cluster, log, source, origin, held)
        for cluster, log in logs.items()
    ]


def trimmed_everywhere(origin: str, logs: Mapping[str, Log]) -> Position:
    """Return the newest position of ``origin`` that no cluster stores any more, EARLIEST if there is none.

    LATEST if no cluster has the topic.
    """
    return min(_trimmed(cluster, log, origin) for cluster, log in logs.items())


def _trimmed(cluster: str, log: Log, origin: str) -> Position:
    if not log.exists:
        return LATEST
    if cluster == origin:
        return _before_head(log)
    return EARLIEST if log.trimmed is None else log.trimmed.get(origin, EARLIEST)


def _before_head(log: Log) -> Position:
    return Position(log.head.ledger_id, log.head.entry_id - 1)


def _of_origin(cluster: str, log: Log) -> Window:
    """Return the window of the cluster that published the entries; another one may have newer ones than were read."""
    return Window(cluster, _before_head(log), log.end, is_fed=log.exists)


def _of_target(cluster: str, log: Log, source: Log | None, origin: str, held: Mapping[str, Held]) -> Window:
    mine = held.get(cluster, NOTHING)
    delivered = EARLIEST if source is None else source.delivered.get(cluster, EARLIEST)
    skipped = () if source is None else source.skipped.get(cluster, ())
    is_fed = source is None or cluster in source.delivered
    newest = max(mine.newest, delivered)
    if log.trimmed is None:  # older entries may have been trimmed
        after = Position(mine.oldest.ledger_id, mine.oldest.entry_id - 1)
        return Window(cluster, after, newest, is_fed, mine.starts, skipped)
    after = log.trimmed.get(origin, EARLIEST)
    return Window(cluster, after, max(newest, after), is_fed, mine.starts, skipped)
